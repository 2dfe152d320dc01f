package mine

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/kind"
	"gleaner/trace/mine/minetest"
)

// faults are recordings that once made mining, checking or growing panic or hang, or
// gave a program that could not be read.
var faults = map[string]func(*tape){
	"beats that are minutes apart": func(tp *tape) {
		for k := range tp.n {
			for i := range 8 {
				tp.now = 1e18 + int64(i)*129e9 + int64(k)
				tp.call(fmt.Sprintf("node-%d", k), "beat", nil, nil)
			}
		}
		for range tp.chance.IntN(9) {
			tp.call("node-0", "beat", nil, nil)
		}
	},
	"a text of the byte that once stood for a word": func(tp *tape) {
		text := "a"
		if tp.n == 4 {
			text = "\x00"
		}
		tp.call(text, "say", []trace.Leaf{{Path: "text", Kind: trace.String, Value: text}}, nil)
	},
	"a number filled up with more zeros than a program can say": func(tp *tape) {
		for i := range tp.n {
			tp.call(fmt.Sprintf("node-%045d", i), "say", []trace.Leaf{{Path: "text", Kind: trace.String, Value: fmt.Sprintf("part-%050d", i)}}, nil)
		}
	},
	"a text that YAML takes for a merge": func(tp *tape) {
		tp.call("client", "say", []trace.Leaf{{Path: "text", Kind: trace.String, Value: "<<"}}, nil)
	},
	"types that begin at the same time": func(tp *tape) {
		for _, who := range []string{"reader", "writer"} {
			for k := range tp.n {
				tp.run.Add(&trace.Call{Scale: tp.n, Start: tp.now, End: tp.now + 1e5, Sender: fmt.Sprintf("%s-%d", who, k), Target: "server", Method: "to " + who})
			}
		}
	},
	"a list in a list, a hundred and thirty deep": func(tp *tape) {
		deep := "l" + strings.Repeat("[0]", 130)
		for i := range tp.n {
			id := minetest.Leaf(deep, strconv.Itoa(7000+31*i*i))
			tp.call("client", "get", nil, []trace.Leaf{id})
			tp.call("client", "put", []trace.Leaf{id}, nil)
		}
	},
	"a list that no scale is large enough for to tell from counting": func(tp *tape) {
		tp.run.Scale = trace.MaxScale
		var names []trace.Leaf
		for i := range 5 {
			names = append(names, trace.Leaf{Path: fmt.Sprintf("names[%d]", i), Kind: trace.String, Value: fmt.Sprintf("part-%d", i)})
		}
		tp.call("client", "list", nil, names)
		for _, name := range names {
			tp.call("client", "get", []trace.Leaf{{Path: "name", Kind: trace.String, Value: name.Value}}, nil)
		}
	},
	"a loop of a loop, at a scale far beyond": func(tp *tape) {
		n := min(tp.n, 12) // what is checked, at the largest scale, is short
		for range n * (n - 1) {
			tp.call("client", "open", nil, nil)
			for range n * n {
				tp.call("client", "read", nil, nil)
			}
		}
		if tp.n > n {
			tp.run.Scale = 1_000_000
		}
	},
}

func TestFaults(t *testing.T) {
	for name, play := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs []recording
			for _, n := range []int{3, 4, 6, 8, 12, 26} {
				tp := &tape{run: corpus.New().Begin("taped"), n: n, now: 1e18, chance: rand.New(rand.NewPCG(uint64(n), 7))}
				play(tp)
				calls := recordedCalls(tp.run)
				for i := range calls {
					calls[i].Scale = tp.run.Scale
				}
				runs = append(runs, recording{n, calls})
			}
			if err := survive(runs, 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNamesOfTypes: a user's rules may use a name twice, and the name of a type
// that was found.
func TestNamesOfTypes(t *testing.T) {
	c := corpus.New()
	tp := &tape{run: c.Begin("n001"), n: 1, now: 1e18, chance: rand.New(rand.NewPCG(1, 7))}
	for _, who := range []string{"x-1", "x-2", "y", "z"} {
		tp.call(who, "by "+who, nil, nil)
	}
	c.Learn(tp.run)
	m, err := Learn(t.Context(), c, kind.Rule{Name: "x", Senders: regexp.MustCompile("^y$")}, kind.Rule{Name: "x", Senders: regexp.MustCompile("^z$")})
	if err != nil {
		t.Fatal(err)
	}
	if err := growsAgain(m.Program, 1); err != nil {
		t.Error(err)
	}
	if n := m.nodes[len(m.nodes)-1].At(1); n != 2 {
		t.Errorf("%d nodes of the type that two rules name, want 2", n)
	}
}
