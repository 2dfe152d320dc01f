package replay_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"gleaner/input"
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
	o.Compress, o.Seed, o.Setting.Nodes = 0.1+0.2, 1<<63+1, map[string]int{"worker": 10}
	orders, err := replay.Orders(o, map[string]string{"": "lean://" + at}, 3)
	if err != nil {
		t.Fatal(err)
	}
	var parts []*replay.Result
	for i := range orders {
		order := reread(t, &orders[i])
		part := order.Options
		if order.Targets[""] != "lean://"+at || part.Part != i || part.Parts != 3 || part.Compress != o.Compress || part.Seed != o.Seed || part.Setting.Nodes["worker"] != 10 {
			t.Errorf("part %d was told %+v", i, order)
		}
		part.Targets, part.Compress = o.Targets, 1
		r, err := replay.Play(t.Context(), part)
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

// reread is an order as another process reads it.
func reread(t *testing.T, o *replay.Order) *replay.Order {
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := replay.ReadOrder(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzOrder: what is no order is an input error, and what is one is read again as the same.
func FuzzOrder(f *testing.F) {
	text, err := json.Marshal(replay.Order{Program: registered, Targets: map[string]string{"": "lean://127.0.0.1:1"}, Options: replay.Options{Parts: 2, Part: 1, Seed: 7}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"options": {"Part": 2, "Parts": 2}}`))
	f.Add([]byte(`{"options": {"Port": 2}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := replay.ReadOrder(bytes.NewReader(text))
		if err != nil {
			if !input.Is(err) {
				t.Fatal(err)
			}
			return
		}
		once, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if twice, _ := json.Marshal(reread(t, o)); !bytes.Equal(once, twice) {
			t.Fatalf("%s\nbecame\n%s", once, twice)
		}
	})
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
