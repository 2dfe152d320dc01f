package kube_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gleaner/cluster"
)

// A job gets its number once, and runs, also when the answer to that is lost, and when somebody else changes the job at
// the same time.
func TestNumbers(t *testing.T) {
	l := real(t)
	for name, strike := range map[string]func(ctx context.Context, write func() error, h client.Object) error{
		"the answer is lost": func(_ context.Context, write func() error, _ client.Object) error {
			return errors.Join(write(), errors.New("the connection was cut"))
		},
		"somebody else was first": func(ctx context.Context, write func() error, h client.Object) error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"blue"}}}`))
			if err := l.client.Patch(ctx, h.DeepCopyObject().(client.Object), patch); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond) // the change is seen before the number is refused
			return write()
		},
	} {
		t.Run(name, func(t *testing.T) {
			l.empty(t)
			under, err := client.NewWithWatch(l.config, client.Options{Scheme: l.client.Scheme()})
			if err != nil {
				t.Fatal(err)
			}
			struck := 0
			w := l.world(t, interceptor.NewClient(under, interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, _ string, h client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
					write := func() error { return c.Status().Patch(ctx, h, patch, o...) }
					if struck++; struck == 1 {
						return strike(ctx, write, h)
					}
					return write()
				}}))
			if err := l.client.Create(t.Context(), load("numbered", 2, "1")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for {
				ev, err := w.Next(ctx)
				if err != nil {
					t.Fatalf("the job is not told of: %v", err)
				}
				if ev.Kind == cluster.JobSubmitted && ev.Job.Name == "numbered" {
					break
				}
			}
			if struck < 2 {
				t.Error("nothing was tried again: this shows nothing")
			}
		})
	}
}
