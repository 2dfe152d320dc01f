package extrapolate

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/lab"
	"gleaner/lab/engine"
)

// TestEtcd goes from recorded traces to a sweep with a real etcd, and checks what
// does not depend on a slow machine: every count that the program decides is played
// as it was recorded, and etcd refuses nothing.
func TestEtcd(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to build, record and play to a real etcd; it takes a minute or two")
	}
	e := &experiment{Target: etcd(lab.Options{Quick: true}), dir: t.TempDir()}
	e.Sweep, e.Time = []int{60}, 3*time.Second
	for _, step := range []func(context.Context) error{e.record, e.learn, e.playBack, e.sweep} {
		if err := step(t.Context()); errors.Is(err, engine.ErrNoGo) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	c := e.report.Check
	if !c.Exact() || c.SequenceMatch < 0.99 || c.ArgumentsMatch < 0.99 || e.report.Arguments.Unknown > 0 {
		t.Errorf("at %d nodes: counts exact %v, sequences %.3f, arguments %.3f; %d arguments unknown", e.Check, c.Exact(), c.SequenceMatch, c.ArgumentsMatch, e.report.Arguments.Unknown)
	}
	for _, row := range c.ByType {
		if played := find(e.played.Calls, row.NodeType, row.Method); row.Nature == "logical" && played.Made != row.Expected {
			t.Errorf("%s %s: %d recorded, %d played", row.NodeType, row.Method, row.Expected, played.Made)
		}
	}
	if x := e.extra[e.Check]; e.played.Refused+e.played.Failed+x.denied+len(x.lost) > 0 {
		t.Errorf("%d refused, %d without a reply, %d denied, %d declared dead", e.played.Refused, e.played.Failed, x.denied, len(x.lost))
	}
	tables, figures := e.results()
	for _, table := range tables {
		if len(table.Rows) == 0 {
			t.Errorf("the table %s is empty", table.Name)
		}
		_ = table.WriteText(t.Output())
	}
	for _, f := range figures {
		if _, err := f.Save(t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

// TestNoSuchTarget names those there are.
func TestNoSuchTarget(t *testing.T) {
	_, _, err := Experiment().Run(t.Context(), lab.Options{Target: "mainframe"})
	if !input.Is(err) {
		t.Errorf("%v is no bad input", err)
	}
}
