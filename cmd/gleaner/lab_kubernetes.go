package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/lab/engine"
)

func newLabKubernetes() *cobra.Command {
	var nodes, real int
	var bare bool
	var data string
	var images []string
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Start a real Kubernetes " + engine.KubernetesVersion + " whose nodes are played, until Ctrl-C",
		Long: `Start etcd, API server and controller manager of Kubernetes as processes on loopback, and
kwok, which plays nodes of 12 cores and 32 GiB: their pods run until they are deleted,
unless their command is 'true', 'false' or 'sleep SECONDS'. A folder that holds a cluster
already is started as it was left.

--bare starts etcd and the API server alone, for 'gleaner trace replay' to play all others
to it. The API server logs all requests in audit.jsonl.

--real starts real nodes beside them, real-0 and so on: kubelet, containerd and runc, as
root, in namespaces of their own. Each has all cores and memory of this machine. They run
the images of --image and no others: there is no registry.

They are built from Go modules into the user's cache folder, once. That takes Go and about
20 minutes on two cores; real nodes take a C compiler too, and three minutes more.`,
		Example: `  gleaner lab kubernetes --data cluster --nodes 100
  kubectl --kubeconfig cluster/kubeconfig get nodes
  gleaner lab kubernetes --data cluster --nodes 0 --real 1 --image gleaner-kube.tar`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nodes < 0 || nodes > 5000 {
				return input.Errorf("--nodes", "%d is not from 0 to 5000", nodes)
			}
			if real < 0 || real > engine.MostRealNodes {
				return input.Errorf("--real", "%d is not from 0 to %d", real, engine.MostRealNodes)
			}
			if bare && (real > 0 || cmd.Flags().Changed("nodes")) {
				return input.Errorf("--bare", "there are no nodes; leave out --nodes and --real")
			}
			if real > 0 {
				if err := engine.CanNode(); err != nil {
					return input.Errorf("--real", "%v", err)
				}
			}
			for _, file := range images {
				if _, err := os.Stat(file); err != nil {
					return input.Errorf("--image", "%v", err)
				}
			}
			at, err := filepath.Abs(data)
			if err != nil {
				return input.Errorf("--data", "%v", err)
			}
			if bare {
				return runBareKubernetes(cmd, at)
			}
			return runLabKubernetes(cmd, at, nodes, real, images)
		},
	}
	cmd.Flags().StringVar(&data, "data", "lab-kubernetes", "the folder for all it writes")
	cmd.Flags().IntVar(&nodes, "nodes", 10, "how many played nodes")
	cmd.Flags().IntVar(&real, "real", 0, "how many real nodes")
	cmd.Flags().BoolVar(&bare, "bare", false, "only etcd and the API server")
	cmd.Flags().StringArrayVar(&images, "image", nil, "an image that real nodes have: the `FILE` of an OCI archive")
	return cmd
}

func buildKubernetes(cmd *cobra.Command) (engine.Kubernetes, error) {
	return engine.BuildKubernetes(cmd.Context(), func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "building Kubernetes %s; this is done once and takes about 20 minutes on two cores\n", engine.KubernetesVersion)
	})
}

// runBareKubernetes runs an API server that others are played to.
func runBareKubernetes(cmd *cobra.Command, data string) error {
	k, err := buildKubernetes(cmd)
	if err != nil {
		return err
	}
	c, err := k.StartBare(cmd.Context(), data)
	if err != nil {
		return startError(err)
	}
	defer c.Stop()
	target := fmt.Sprintf("https://%s?kubeconfig=%s&as=sender&groups=system:masters", c.Address, url.QueryEscape(c.Kubeconfig))
	if wantJSON(cmd) {
		err = printJSON(cmd, map[string]any{"kubeconfig": c.Kubeconfig, "target": target, "audit_log": c.AuditLog(), "data": data, "kubectl": k.Binary + " kubectl"})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "The API server serves, data and logs in %s; Ctrl-C or 'kill %d' stops it\nexport KUBECONFIG=%s\ngleaner trace replay PROGRAM --target '%s'\n",
			data, os.Getpid(), c.Kubeconfig, target)
	}
	if err != nil {
		return err
	}
	return c.Failure(cmd.Context())
}

func runLabKubernetes(cmd *cobra.Command, data string, nodes, real int, images []string) error {
	ctx := cmd.Context()
	k, err := buildKubernetes(cmd)
	if err != nil {
		return err
	}
	c, err := k.StartCluster(ctx, data)
	if err != nil {
		return startError(err)
	}
	defer c.Stop()
	if nodes > 0 {
		if err := c.AddNodes(ctx, nodes, "12", "32Gi"); err != nil {
			return err
		}
	}
	started, err := startRealNodes(cmd, c, real, images)
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		err = printJSON(cmd, map[string]any{"kubeconfig": c.Kubeconfig, "nodes": nodes, "real": started, "data": data, "kubectl": k.Binary + " kubectl"})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Kubernetes serves with %d nodes, data and logs in %s; Ctrl-C or 'kill %d' stops it\nexport KUBECONFIG=%s\nkubectl is also '%s kubectl'\n",
			nodes+real, data, os.Getpid(), c.Kubeconfig, k.Binary)
		for _, n := range started {
			fmt.Fprintf(cmd.OutOrStdout(), "%s is real; its logs and those of its pods are in %s\n  gleaner-kube agent --kubeconfig %s --node %s --cgroup-root %s\n", n.Name, n.Logs, c.Kubeconfig, n.Name, n.CgroupRoot)
		}
	}
	if err != nil {
		return err
	}
	return c.Failure(ctx)
}

// A realNode is a real node as it is listed.
type realNode struct {
	Name       string `json:"name"`
	CgroupRoot string `json:"cgroup_root"`
	Logs       string `json:"logs"`
}

func startRealNodes(cmd *cobra.Command, c *engine.ControlPlane, real int, images []string) ([]realNode, error) {
	started := []realNode{}
	if real == 0 {
		return started, nil
	}
	programs, err := engine.BuildNode(cmd.Context(), func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "building containerd %s and runc; this is done once and takes about 3 minutes on two cores\n", engine.ContainerdVersion)
	})
	if err != nil {
		return nil, err
	}
	for i := range real {
		n, err := c.StartNode(cmd.Context(), programs, i, images...)
		if err != nil {
			return nil, err
		}
		started = append(started, realNode{n.Name, n.CgroupRoot, n.Logs})
	}
	return started, nil
}
