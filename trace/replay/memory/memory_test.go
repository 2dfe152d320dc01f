package memory

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
)

const farm = `version: 1
scales: [3]
types:
  - type: master
    nodes: 1
    sender: master
    address: 10.0.0.9
    calls: [{call: put#1, method: put}]
    steps: [{call: put#1}]
  - type: worker
    nodes: 3
    sender: worker-{node}
    address: 10.0.0.{node+1}
    calls:
      - {call: join#1, method: join, args: {at: '{address}'}}
      - {call: use#1, method: use, args: {id: '{reply "join#1" "id"}', n: '={i}', job: '{reply "put#1" "jobs[0].id" each by anyone}'}}
      - {call: find#1, method: find, args: {job: '{draw "b"}', size: '={reply "put#1" "jobs[0].size" where reply "jobs[].id" is "job" index row 0}'}}
      - {call: all#1, method: all, args: {'parts[*].id': '{reply "put#1" "jobs[0].id" by anyone index item 0}', 'parts[*].no': '={item}'}}
    steps: [{call: join#1}, {call: use#1}, {call: find#1}, {call: all#1}]
`

// A world is the farm with its memory.
type world struct {
	*testing.T
	plan    *plan.Plan
	shared  *Shared
	filling *Filling
	nodes   map[string]*Node
}

func newWorld(t *testing.T) *world {
	p, err := program.Read("farm", []byte(farm))
	if err != nil {
		t.Fatal(err)
	}
	pl := plan.New(p, grow.Setting{Scale: 3}, func(string) bool { return true })
	w := &world{T: t, plan: pl, shared: New(pl), nodes: map[string]*Node{}}
	w.filling = NewFilling(pl, w.shared, 100, false)
	for _, k := range pl.Kinds {
		for rank := range k.Count {
			n := &Node{}
			n.Init(k, rank, 3, 1)
			w.nodes[n.Sender] = n
		}
	}
	return w
}

func (w *world) site(n *Node, call string) *plan.Site {
	for _, st := range n.Kind.Sites {
		if st.Name == call {
			return st
		}
	}
	w.Fatalf("%s has no %s", n.Sender, call)
	return nil
}

// answer enters a call of a node with its reply, as "path=value path=value".
func (w *world) answer(node, call, reply string) {
	n, rec := w.nodes[node], &Record{}
	st := w.site(n, call)
	var leaves []trace.Leaf
	for _, text := range strings.Fields(reply) {
		path, value, _ := strings.Cut(text, "=")
		leaves = append(leaves, trace.Leaf{Path: path, Value: value})
	}
	w.shared.Publish(n, st, rec, false)
	rec.Keep(st, program.Reply, leaves)
	w.shared.Publish(n, st, rec, true)
}

// ask is what a node would ask at a time, after it has waited since another.
func (w *world) ask(node, call string, since, at int64) string {
	n := w.nodes[node]
	leaves, ok := w.filling.Fill(n, w.site(n, call), nil, since, at)
	if !ok && w.filling.Lost() != nil {
		return "lost"
	}
	if !ok {
		return "waits"
	}
	var out []string
	for _, l := range leaves {
		out = append(out, l.Path+"="+l.Value)
	}
	return strings.Join(out, " ")
}

func (w *world) want(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s, want %s", got, want)
	}
}

// TestFill: arguments from the node itself, from its own replies, and from those of
// others by a key and as a list.
func TestFill(t *testing.T) {
	w := newWorld(t)
	w.want(w.ask("worker-1", "join#1", 0, 1), "at=10.0.0.2")
	w.want(w.ask("worker-1", "use#1", 0, 1), "lost") // join#1 comes before it, and had no reply
	w.answer("worker-1", "join#1", "id=77 other=1")
	w.want(w.ask("worker-1", "find#1", 0, 1), "waits")
	w.answer("master", "put#1", "jobs[0].id=a jobs[0].size=10 jobs[1].id=b jobs[1].size=20")
	w.want(w.ask("worker-1", "use#1", 0, 1), "id=77 n=0 job=a")
	w.want(w.ask("worker-1", "find#1", 0, 1), "job=b size=20")
	w.want(w.ask("worker-1", "all#1", 0, 1), "parts[0].id=a parts[0].no=0 parts[1].id=b parts[1].no=1")
	w.filling.local = true
	w.want(w.ask("worker-1", "join#1", 0, 1), "at=127.0.0.1")
}

// TestEachOnce: a value that any node may take is taken by one; after the grace, by
// another.
func TestEachOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.answer(fmt.Sprintf("worker-%d", i), "join#1", "id=7")
	}
	w.answer("master", "put#1", "jobs[0].id=a")
	w.want(w.ask("worker-0", "use#1", 0, 1), "id=7 n=0 job=a")
	w.want(w.ask("worker-1", "use#1", 0, 1), "waits")
	if !w.filling.Grace() {
		t.Error("a used value is there")
	}
	w.want(w.ask("worker-1", "use#1", 1, 100), "waits")
	w.want(w.ask("worker-1", "use#1", 1, 101), "id=7 n=0 job=a")
	w.want(w.ask("worker-0", "use#1", 1, 101), "waits") // it has used that already
	w.answer("master", "put#1", "jobs[0].id=b")
	w.want(w.ask("worker-0", "use#1", 0, 1), "id=7 n=0 job=b")
}

// A bell counts how often it was woken.
type bell struct{ rung int }

func (b *bell) Wake() { b.rung++ }

// TestPark: who waits is woken by the node's own calls and by those of others that may
// have the value, and by no others.
func TestPark(t *testing.T) {
	w := newWorld(t)
	var b bell
	park := func() {
		w.want(w.ask("worker-1", "find#1", 0, 1), "waits")
		w.filling.Park(&b)
	}
	park()
	w.answer("worker-2", "join#1", "id=7")
	w.answer("master", "put#1", "jobs[0].id=x jobs[0].size=1")
	if b.rung != 0 {
		t.Errorf("woken %d times by others", b.rung)
	}
	w.answer("master", "put#1", "jobs[0].id=b jobs[0].size=2")
	if b.rung != 1 {
		t.Errorf("woken %d times by the value", b.rung)
	}
	w = newWorld(t)
	b.rung = 0
	park()
	w.answer("worker-1", "join#1", "id=7")
	if b.rung == 0 {
		t.Error("not woken by its own call")
	}
}
