package simulation

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/sim/compute"
	"gleaner/sim/datacenter"
)

func generated(t testing.TB, servers, past, days int, utilisation float64) *datacenter.Datacenter {
	t.Helper()
	profile, err := datacenter.Find("DC-9")
	if err != nil {
		t.Fatal(err)
	}
	d := datacenter.Generate(profile, datacenter.Options{Servers: servers, Past: past, Days: days, Seed: 1})
	if d, err = d.Scaled("linear", utilisation); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOneSeedGivesOneRun(t *testing.T) {
	d := generated(t, 100, 3, 1, 0.4)
	tape := func(seed uint64) []byte {
		var buf bytes.Buffer
		rec := control.NewRecording(&buf)
		if _, err := (Compute{Policy: "history", Seed: seed, Record: rec}).Run(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		if err := rec.Flush(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	first := tape(1)
	if !bytes.Equal(first, tape(1)) {
		t.Error("two runs of one seed differ")
	}
	if bytes.Equal(first, tape(2)) {
		t.Error("two seeds give the same run")
	}
}

// Each server of a tenant is at 8% or, a fifth of the time and each by itself, at
// 98%; together they are always near 26%. Tasks die of what their server does.
func TestServersAreSimulatedByTheirOwnHistory(t *testing.T) {
	run := func(policy, environment string) compute.Result {
		const days, slots = 5, 48 // of half an hour
		from := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		d := datacenter.New("bursts", cluster.Window{From: from, Step: 30 * time.Minute, Len: days * slots}, from.AddDate(0, 0, days-1))
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 40 {
			cpu := make([]float32, days*slots)
			for k := range cpu {
				cpu[k] = 0.08
				if r.Float64() < 0.2 {
					cpu[k] = 0.98
				}
			}
			d.Add(cluster.Server{ID: cluster.ServerID(fmt.Sprintf("s%02d", i)), Environment: environment, CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}, cpu)
		}
		result, err := Compute{Policy: policy, Seed: 1}.Run(t.Context(), d, nil)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	// A policy that knows no classes does not see who owns a server.
	if one, each := run("primary", "all"), run("primary", ""); one != each {
		t.Errorf("one tenant: %+v\na tenant for each server: %+v", one, each)
	}
	for _, environment := range []string{"all", ""} {
		r := run("history", environment)
		killed := float64(r.TasksKilled) / float64(r.TasksStarted)
		if killed < 0.05 {
			t.Errorf("environment %q: %.2f%% of tasks killed", environment, 100*killed)
		}
	}
}

func TestARunCanBeStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Compute{Policy: "primary", Seed: 1}.Run(ctx, generated(t, 50, 1, 1, 0.3), func(share float64) error {
		if share > 0.5 {
			cancel()
		}
		return nil
	})
	if ctx.Err() == nil || err == nil {
		t.Errorf("the run went on to its end: %v", err)
	}
}

func BenchmarkCompute(b *testing.B) {
	for _, size := range []struct{ servers, days int }{{500, 1}, {5000, 1}, {5000, 30}} {
		b.Run(fmt.Sprintf("%dservers_%ddays", size.servers, size.days), func(b *testing.B) {
			if size.days > 1 && os.Getenv("GLEANER_LONG") == "" {
				b.Skip("set GLEANER_LONG=1")
			}
			d := generated(b, size.servers, 7, size.days, 0.45)
			run := Compute{Policy: "history", Classes: Classes(d, 1), Seed: 1}
			tasks := 0
			for b.Loop() {
				res, err := run.Run(b.Context(), d, nil)
				if err != nil {
					b.Fatal(err)
				}
				tasks += res.TasksStarted
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(tasks), "ns/task")
		})
	}
}
