package replay_test

import (
	"testing"

	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/lean"
)

// TestParts: three parts of a run add up to what one process plays.
func TestParts(t *testing.T) {
	at, _ := serve(t, "127.0.0.1:0", lean.Echo)
	o := options(t, registered, 10, open(t, at))
	if !replay.Apart(o.Program, o.Setting) {
		t.Fatal("these nodes have nothing to do with each other")
	}
	var parts []*replay.Result
	for i := range 3 {
		o.Part, o.Parts = i, 3
		r, err := replay.Play(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Export()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = replay.Import(b); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, r)
	}
	r := replay.Merge(parts)
	work := made(r, "work")
	if work.Made != 400 || work.Answered != 400 || made(r, "register").Made != 10 || work.Latency.P99 <= 0 || work.Latency.P99 > work.Latency.Max {
		t.Errorf("%+v", work)
	}
}

// TestApart: nodes that need each other are not played in several processes.
func TestApart(t *testing.T) {
	for _, change := range []string{
		"start: {after: b#1, of: b, wait: 0}",
		`x: '{reply "b#1" "x" by anyone}'`,
	} {
		start, arg := change, ""
		if change[0] == 'x' {
			start, arg = "", ", args: {"+change+"}"
		}
		p, err := program.Read("p", []byte("version: 1\nscales: [3]\ntypes:\n  - type: a\n    nodes: n\n    sender: a\n    "+start+
			"\n    calls:\n      - {call: a#1, method: a"+arg+"}\n    steps:\n      - call: a#1\n  - type: b\n    nodes: n\n    sender: b\n    calls:\n      - {call: b#1, method: b}\n    steps:\n      - call: b#1\n"))
		if err != nil {
			t.Fatal(err)
		}
		o := options(t, registered, 3, nil)
		if replay.Apart(p, o.Setting) {
			t.Errorf("with %s the nodes are not apart", change)
		}
	}
}
