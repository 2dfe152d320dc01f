package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gleaner/control"
	"gleaner/harvest"
	"gleaner/history/prometheus"
	"gleaner/input"
	"gleaner/kube"
	"gleaner/kube/controller"
	"gleaner/kv"
	"gleaner/kv/cassandra"
	"gleaner/kv/mem"
	"gleaner/kv/pebble"
)

type controllerFlags struct {
	kubeconfig, namespace, policy, record string
	data, store, tenants                  string
	lease                                 time.Duration
	speed                                 float64
	labels                                kube.Labels
	prometheus                            prometheus.Query
}

func newController() *cobra.Command {
	f := controllerFlags{labels: kube.DefaultLabels}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run HarvestJobs on what the nodes' own pods do not use",
		Long: `Controller runs the tasks of HarvestJobs as pods on nodes whose agents report what
their primaries use. Of several controllers one leads, by a Lease. Tasks go on while there
is none; one that starts reads back from the API what runs.

What the primaries used, the classes of nodes and how long jobs took are kept in --data or
--store. Without them they are forgotten when this ends.`,
		Example: `  gleaner-kube controller --kubeconfig cluster/kubeconfig --policy primary
  gleaner-kube controller --kubeconfig cluster/kubeconfig --data history --tenants namespace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runController(cmd, f) },
	}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "reach the cluster as `FILE` says (default: as a pod of the cluster)")
	cmd.Flags().StringVar(&f.namespace, "namespace", "gleaner-system", "where the agents' reports and the leader's Lease are")
	cmd.Flags().DurationVar(&f.lease, "lease", 15*time.Second, "how long a leader that is gone keeps the others waiting")
	cmd.Flags().Float64Var(&f.speed, "speed", 1, "how fast the clock goes by which it decides, for clusters that are played")
	cmd.Flags().StringVar(&f.policy, "policy", "history", "how much to harvest: "+strings.Join(harvest.PolicyNames(), ", "))
	cmd.Flags().StringVar(&f.record, "record", "", "record events and decisions in `FILE`")
	cmd.Flags().StringVar(&f.data, "data", "", "keep the history in the folder `DIR`, which one controller at a time may use")
	cmd.Flags().StringVar(&f.store, "store", "", "keep the history in Cassandra: cassandra://HOST,…/KEYSPACE[?dc=NAME&login=FILE]")
	cmd.Flags().StringVar(&f.prometheus.URL, "prometheus", "", "read the history from the Prometheus server at `URL`, once a day, instead of keeping what agents report")
	cmd.Flags().StringVar(&f.prometheus.CPU, "query", `1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[2m]))`, "PromQL for the share of a node's CPU in use by its primary")
	cmd.Flags().StringVar(&f.prometheus.Label, "query-label", "node", "the label of the query's series that names the node")
	cmd.Flags().DurationVar(&f.prometheus.Step, "query-step", 2*time.Minute, "time between samples to ask Prometheus for")
	cmd.Flags().StringVar(&f.tenants, "tenants", string(kube.ByLabels), "whom nodes belong to: labels, or the namespace or owner whose pods ask for the most CPU there")
	cmd.Flags().StringVar(&f.labels.Environment, "environment-label", f.labels.Environment, "the label of nodes that names the environment they belong to")
	cmd.Flags().StringVar(&f.labels.Function, "function-label", f.labels.Function, "the label of nodes that names what they do there")
	cmd.Flags().StringVar(&f.labels.Rack, "rack-label", f.labels.Rack, "the label of nodes that names their rack")
	return cmd
}

func runController(cmd *cobra.Command, f controllerFlags) (err error) {
	o := controller.Options{Namespace: f.namespace, Labels: f.labels, Lease: f.lease, Speed: f.speed, Reserve: harvest.PaperReserve, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
	log.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
	klog.SetSlogLogger(o.Log)
	if f.lease < time.Second {
		return input.Errorf("--lease", "%v is less than a second", f.lease)
	}
	if !(f.speed >= 1 && f.speed <= 1000) {
		return input.Errorf("--speed", "%v is not from 1 to 1000", f.speed)
	}
	if err := f.past(cmd, &o); err != nil {
		return err
	}
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
	var calls atomic.Int64
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, &calls} })
	defer func() { o.Log.Info("ended", "calls", calls.Load()) }()
	return controller.Run(cmd.Context(), o)
}

// counted counts calls to the API server.
type counted struct {
	http.RoundTripper
	calls *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// past is where the history comes from and is kept.
func (f *controllerFlags) past(cmd *cobra.Command, o *controller.Options) error {
	if o.Tenancy = kube.Tenancy(f.tenants); !slices.Contains(kube.Tenancies(), o.Tenancy) {
		return input.Errorf("--tenants", "%q is none of %v", f.tenants, kube.Tenancies())
	}
	for _, name := range []string{"query", "query-label", "query-step"} {
		if f.prometheus.URL == "" && cmd.Flags().Changed(name) {
			return input.Errorf("--"+name, "goes with --prometheus")
		}
	}
	if f.prometheus.URL != "" {
		if at, err := url.Parse(f.prometheus.URL); err != nil || at.Host == "" {
			return input.Errorf("--prometheus", "%q is no address, as http://prometheus:9090", f.prometheus.URL)
		}
		if f.prometheus.Step < time.Second {
			return input.Errorf("--query-step", "%v is less than a second", f.prometheus.Step)
		}
		o.Prometheus = &f.prometheus
	}
	var err error
	o.Store, err = f.open()
	return err
}

// open is how the store is opened.
func (f *controllerFlags) open() (func(context.Context) (kv.Store, error), error) {
	switch {
	case f.data != "" && f.store != "":
		return nil, input.Errorf("--data", "is not used with --store; leave one of them out")
	case f.data != "":
		return func(context.Context) (kv.Store, error) {
			s, err := pebble.Open(filepath.Join(f.data, "kv"), pebble.Options{})
			if err != nil {
				return nil, input.Errorf("--data", "%v", err)
			}
			return s, nil
		}, nil
	case f.store != "":
		at, err := cassandra.Parse(f.store)
		if err != nil {
			return nil, input.Errorf("--store", "%v", err)
		}
		return func(ctx context.Context) (kv.Store, error) { return cassandra.Open(ctx, at, cassandra.Options{}) }, nil
	}
	return func(context.Context) (kv.Store, error) { return mem.New(), nil }, nil
}

// configOf is how the cluster is reached. The API server limits its clients itself; a limit
// of the client's own would make kills wait behind starts.
func configOf(kubeconfig string) (config *rest.Config, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, input.Errorf("--kubeconfig", "is needed: this is no pod of a cluster")
	case err != nil:
		return nil, input.Errorf("--kubeconfig", "%v", err)
	}
	config.QPS = -1
	return config, nil
}
