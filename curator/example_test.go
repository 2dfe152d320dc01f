package curator_test

import (
	"context"
	"fmt"
	"os"

	"gleaner/curator"
	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// A job finds extents that no block refers to: it maps both tables to the same keys, and looks
// which keys come from one of them only.
func Example() {
	ctx, store := context.Background(), mem.New()
	extents, _ := store.LooseTable(ctx, "extents")
	blocks, _ := store.LooseTable(ctx, "blocks")
	extents.Put(ctx, record("e1", ""), record("e2", ""), record("e3", ""))
	blocks.Put(ctx, record("b1", "e1"), record("b2", "e3"), record("b3", "e3"))

	unused := curator.Job{
		Name: "unused",
		Inputs: []curator.Input{
			{Table: "blocks", Map: func(r *kv.Record, out *curator.Pairs) error { out.Emit(r.Value, nil); return nil }},
			{Table: "extents", Map: func(r *kv.Record, out *curator.Pairs) error { out.Emit(r.Key.Part, nil); return nil }},
		},
		Reduce: func(key []byte, values *curator.Values, propose func(task.Task)) error {
			if values.Next() && values.Table == "extents" { // blocks would come first
				propose(task.Task{Kind: "delete extent", What: key, Why: "no block refers to it"})
			}
			return nil
		},
	}

	dir, _ := os.MkdirTemp("", "runs")
	defer os.RemoveAll(dir)
	c, err := curator.Open(ctx, store, kv.NewWriter(1), curator.Options{
		Name:   "p1",
		Tables: map[string]kv.Reader{"extents": extents, "blocks": blocks},
		Jobs:   []curator.Job{unused},
		Space:  shuffle.Dir(dir),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Scan(ctx, func(t task.Task) error {
		fmt.Printf("%s %s: %s\n", t.Kind, t.What, t.Why)
		return nil
	})
	fmt.Println(err)
	// Output:
	// delete extent e2: no block refers to it
	// <nil>
}

func record(part, value string) kv.Record {
	return kv.Record{Key: kv.Key{Part: []byte(part)}, Value: []byte(value)}
}
