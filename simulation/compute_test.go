package simulation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"gleaner/control"
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
