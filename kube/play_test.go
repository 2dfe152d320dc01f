package kube_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gleaner/harvest"
	"gleaner/kube/controller"
	played "gleaner/kube/lab"
	"gleaner/sim/datacenter"
)

// A datacenter is played for an hour, in half a minute: its jobs run, its nodes offer what their
// primaries leave, and nothing is left.
func TestPlay(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("GLEANER_LONG=1 plays for half a minute")
	}
	l := real(t)
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: datacenter.FewestServers, Past: 1, Days: 1, Seed: 1})
	if d, err = d.Scaled("linear", 0.6); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"primary", "koordinator"} {
		policy, err := harvest.PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		const speed = 240
		r, err := played.Experiment{Config: l.config, System: system, Datacenter: d, Length: time.Hour, Speed: speed, Policy: name, Seed: 1,
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Controller: func(context.Context) (func() error, error) {
				stop := l.control(t, func(o *controller.Options) {
					o.Policy, o.Speed, o.Steady, o.Every = policy, speed, 0, 500*time.Millisecond
				})
				return func() error { stop(); return nil }, nil
			}}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Jobs == 0 || r.Jobs != r.Simulated.Jobs || r.Started == 0 || r.Held <= 0 || r.Changes == 0 || r.Stretch < 0.9 {
			t.Errorf("%+v", r)
		}
		t.Logf("%+v", r)
		var nodes corev1.NodeList
		if err := soon(t.Context(), func() error { return l.client.List(t.Context(), &nodes) }); err != nil || len(nodes.Items) != 0 {
			t.Errorf("%d nodes are left; %v", len(nodes.Items), err)
		}
	}
}
