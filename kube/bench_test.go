package kube_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
	"gleaner/kube"
)

// What the API server of the cluster takes from 16 clients at once, on a machine that is also theirs and etcd's: reports of
// agents, and pods that are made and deleted again, as by a controller.
func BenchmarkAPIServer(b *testing.B) {
	l := real(b)
	for name, calls := range map[string]func(ctx context.Context, i int64) (int64, error){
		"reports": func(ctx context.Context, i int64) (int64, error) {
			report := kube.ReportOf(cluster.ServerID(fmt.Sprintf("bench-%d", i%1000)), system, cluster.Resources{CPU: cluster.MilliCPU(i), Memory: cluster.GB}, time.Now())
			return 1, kube.Report(ctx, l.client, report)
		},
		"pods": func(ctx context.Context, i int64) (int64, error) {
			no := false
			p := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: kube.Scheduler, NodeName: "nowhere", AutomountServiceAccountToken: &no,
				Containers: []corev1.Container{{Name: "task", Image: "none"}}}}
			p.Name, p.Namespace = fmt.Sprintf("bench-%d", i), namespace
			if err := l.client.Create(ctx, p); err != nil {
				return 1, err
			}
			return 2, l.client.Delete(ctx, p, client.GracePeriodSeconds(0))
		},
	} {
		b.Run(name, func(b *testing.B) {
			var next, made atomic.Int64
			b.SetParallelism(8) // for each of two cores
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n, err := calls(b.Context(), next.Add(1))
					if made.Add(n); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(made.Load())/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
