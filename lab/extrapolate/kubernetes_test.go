package extrapolate

import (
	"context"
	"os"
	"testing"

	"gleaner/lab"
	"gleaner/lab/engine"
)

// TestAPIServer plays 26 nodes, learned from 3 to 12, to a real API server: its own log has
// every count that the program decides as it was recorded, and nothing is missing or
// refused that was not.
func TestAPIServer(t *testing.T) {
	const recordings = "../../../shared/data/traces/k8s"
	if os.Getenv("GLEANER_LONG") == "" || !engine.HasKubernetes() {
		t.Skip("set GLEANER_LONG=1 after 'gleaner lab kubernetes --bare' has built Kubernetes; it takes two minutes")
	}
	if _, err := os.Stat(recordings); err != nil {
		t.Skip("no recorded Kubernetes traces here")
	}
	e := &experiment{Target: apiServer(lab.Options{Quick: true, Traces: recordings}), dir: t.TempDir()}
	for _, step := range []func(context.Context) error{e.record, e.learn, e.playBack} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !e.report.Check.Exact() {
		t.Error("some counts are neither exact nor named as ambiguous")
	}
	if r := e.played; r.Unexpected+r.Lacking+r.Unsendable+r.Failed > 0 {
		t.Errorf("%d refused that were not, %d missing, %d not sendable, %d without a reply; the first: %+v", r.Unexpected, r.Lacking, r.Unsendable, r.Failed, r.Fault)
	}
	logged, decided := e.extra[e.Check].logged, 0
	for _, row := range e.report.Check.ByType {
		if row.Nature != "logical" || row.Why != "" {
			continue
		}
		decided++
		if n := logged.calls.Of(row.NodeType, row.Method); n != row.Expected {
			t.Errorf("%s %s: %d recorded, %d in the API server's log", row.NodeType, row.Method, row.Expected, n)
		}
	}
	if decided < 100 {
		t.Errorf("the program decides %d counts only", decided)
	}
	_ = e.counted().WriteText(t.Output())
}
