package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gleaner/control"
	"gleaner/harvest"
	"gleaner/input"
	"gleaner/kube"
	"gleaner/kube/controller"
)

type controllerFlags struct {
	kubeconfig, namespace, policy, record string
	labels                                kube.Labels
}

func newController() *cobra.Command {
	f := controllerFlags{labels: kube.DefaultLabels}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run HarvestJobs on what the nodes' own pods do not use",
		Long: `Controller runs the tasks of HarvestJobs as pods on nodes whose agents report what
their primaries use. Of several controllers one leads, by a Lease. Tasks go on while there
is none; one that starts reads back from the API what runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runController(cmd, f) },
	}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "reach the cluster as `FILE` says (default: as a pod of the cluster)")
	cmd.Flags().StringVar(&f.namespace, "namespace", "gleaner-system", "where the agents' reports and the leader's Lease are")
	cmd.Flags().StringVar(&f.policy, "policy", "history", "how much to harvest: "+strings.Join(harvest.PolicyNames(), ", "))
	cmd.Flags().StringVar(&f.record, "record", "", "record events and decisions in `FILE`")
	cmd.Flags().StringVar(&f.labels.Environment, "environment-label", f.labels.Environment, "the label of nodes that names the environment they belong to")
	cmd.Flags().StringVar(&f.labels.Function, "function-label", f.labels.Function, "the label of nodes that names what they do there")
	cmd.Flags().StringVar(&f.labels.Rack, "rack-label", f.labels.Rack, "the label of nodes that names their rack")
	return cmd
}

func runController(cmd *cobra.Command, f controllerFlags) (err error) {
	o := controller.Options{Namespace: f.namespace, Labels: f.labels, Reserve: harvest.PaperReserve, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
	log.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
	klog.SetSlogLogger(o.Log)
	if o.Policy, err = harvest.PolicyNamed(f.policy); err != nil {
		return input.Errorf("--policy", "%v", err)
	}
	if o.Config, err = configOf(f.kubeconfig); err != nil {
		return err
	}
	if f.record != "" {
		file, err := os.OpenFile(f.record, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return input.Errorf("--record", "%v", err)
		}
		tape := control.NewRecording(file)
		o.Recorder = tape
		defer func() {
			if flushed, closed := tape.Flush(), file.Close(); err == nil {
				if err = flushed; err == nil {
					err = closed
				}
			}
		}()
	}
	return controller.Run(cmd.Context(), o)
}

// configOf is how the cluster is reached. The API server limits its clients itself; a limit
// of the client's own would make kills wait behind starts.
func configOf(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil && kubeconfig != "" {
		return nil, input.Errorf("--kubeconfig", "%v", err)
	}
	if err != nil {
		return nil, fmt.Errorf("this is no pod of a cluster, and --kubeconfig is not given: %w", err)
	}
	config.QPS = -1
	return config, nil
}
