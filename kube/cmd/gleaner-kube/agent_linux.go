package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gleaner/harvest"
	"gleaner/input"
	"gleaner/kube"
	"gleaner/kube/agent"
)

func newAgent() *cobra.Command {
	var kubeconfig string
	o := agent.Options{Reserve: harvest.PaperReserve}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Guard the node that this runs on",
		Long: `Agent reads what the primary of its node uses, which is all that is no harvested pod, has
the node offer what can be harvested, and kills harvested pods, the youngest first, when
the primary needs their room. It kills through control groups and tells the API afterwards.`,
		Example: `  gleaner-kube agent --kubeconfig cluster/kubeconfig --node node-0000
  gleaner-kube agent --node "$NODE_NAME" --cgroups /host/sys/fs/cgroup      # in a pod of the node`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Node == "" {
				return input.Errorf("--node", "is needed: the name of the node that this runs on")
			}
			if _, err := os.Stat(filepath.Join(o.Mount, "cgroup.controllers")); err != nil {
				if _, err := os.Stat(filepath.Join(o.Mount, "freezer")); err != nil {
					return input.Errorf("--cgroups", "%s has neither control groups of version 2 nor a freezer of version 1", o.Mount)
				}
			}
			config, err := configOf(kubeconfig)
			if err != nil {
				return err
			}
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			log.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
			klog.SetSlogLogger(o.Log)
			return runAgent(cmd.Context(), config, o)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "reach the cluster as `FILE` says (default: as a pod of the cluster)")
	cmd.Flags().StringVar(&o.Namespace, "namespace", "gleaner-system", "where reports are")
	cmd.Flags().StringVar(&o.Node, "node", "", "the `NAME` of the node that this runs on")
	cmd.Flags().StringVar(&o.Mount, "cgroups", "/sys/fs/cgroup", "where the node's control groups are mounted")
	cmd.Flags().StringVar(&o.Root, "cgroup-root", "", "kubelet's cgroupRoot, if it has one")
	return cmd
}

// runAgent guards the node, with a cache of its own.
func runAgent(ctx context.Context, config *rest.Config, o agent.Options) error {
	scheme, err := kube.Scheme()
	if err != nil {
		return err
	}
	if o.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if o.Cache, err = cache.New(config, agent.CacheOptions(scheme, o.Node)); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- o.Cache.Start(ctx) }()
	err = agent.Run(ctx, o)
	cancel()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}
