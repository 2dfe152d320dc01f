package replay

import (
	"context"
	"math"
	"testing"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/value"
)

// largest answers at once, and keeps the largest number of leaves in a request.
type largest struct{ leaves int }

func (l *largest) Dial(context.Context, Identity) (Conn, error) { return l, nil }
func (l *largest) Close() error                                 { return nil }
func (l *largest) Call(_ context.Context, c *trace.Call) (Reply, error) {
	l.leaves = max(l.leaves, len(c.Request))
	return Reply{Leaves: c.Request}, nil
}

func playText(t *testing.T, text string, scale int, to Executor) error {
	t.Helper()
	p, err := program.Read("p.yaml", []byte("version: 1\nscales: [3]\ntypes:\n"+text+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := grow.Resolve(p, grow.Setting{Scale: scale})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Play(t.Context(), Options{Program: p, Setting: s, Targets: map[string]Executor{"": to}, Workers: 1})
	return err
}

// TestFloods: a list is no longer than one call may have, also with a huge formula, lists
// in lists or a huge index, and using it up takes little time.
func TestFloods(t *testing.T) {
	for name, text := range map[string]string{
		"lists in lists": `  - {type: a, nodes: 1, sender: a, calls: [{call: a#1, method: a, lists: {'a': [1000], 'a[*].b': [1/0]}, args: {'a[*].b[*]': 1}}], steps: [{call: a#1}]}`,
		"an element":     `  - {type: a, nodes: 1, sender: a, calls: [{call: a#1, method: a, args: {'a[2000000000].x': 1}}, {call: b#1, method: b, args: {'b[*]': '={request "a#1" "a[0].x" index item 0 | "1"}'}}], steps: [{call: a#1}, {call: b#1}]}`,
		"used up":        `  - {type: a, nodes: 1, sender: a, calls: [{call: a#1, method: a, lists: {'a': [100000]}, args: {'a[*]': '={item}'}}, {call: b#1, method: b, args: {'b[*]': '={reply "a#1" "a[0]" each}'}}], steps: [{call: a#1}, {call: b#1}]}`,
	} {
		to := &largest{}
		if err := playText(t, text, 3, to); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if to.leaves < 100_000 || to.leaves > value.MaxElements {
			t.Errorf("%s: %d leaves in a call", name, to.leaves)
		}
	}
}

// TestTooManyNodes: more nodes than a process has memory for are refused.
func TestTooManyNodes(t *testing.T) {
	for _, text := range []string{
		`  - {type: a, nodes: 5*n, sender: a, calls: [{call: a#1, method: a}], steps: [{call: a#1}]}`,
		`  - {type: a, nodes: n, sender: a, calls: [{call: a#1, method: a}], steps: [{call: a#1}]}` + "\n" + `  - {type: b, nodes: 1, sender: b}`,
	} {
		if err := playText(t, text, 1_000_000, &largest{}); !input.Is(err) {
			t.Errorf("a million nodes and more: %v", err)
		}
	}
}

// TestLater: a sum of waits that would overflow is a time in the future.
func TestLater(t *testing.T) {
	now := int64(1.8e18)
	if at := later(now, 10, 3); at != now+30 {
		t.Errorf("three times 10 ns later it is %d ns later", at-now)
	}
	far := later(now, 3.6e12, 1e9)
	if again := later(far, 3.6e12, 1e9); far <= now || again < far || again > math.MaxInt64/2+1024 {
		t.Errorf("a billion hours after %d it is %d, and then %d", now, far, again)
	}
}
