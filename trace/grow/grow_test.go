package grow

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/program"
)

const wordcount = `version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    address: 10.0.0.{node+1}
    calls:
      - call: register#1
        target: master
        method: register
        args:
          host: host-{node+1}
          uuid: '{unknown uuid}'
      - call: read#1
        target: master
        method: read
        wait: 100
        args:
          src: /in/part-{i:05}
          lease: ={reply "register#1" "lease"}
          at: ={now ms}
          mode: '{case i "0" "first" else "later"}'
      - call: beat#1
        target: master
        method: beat
        args:
          seq: ={i}
    steps:
      - call: register#1
      - repeat: min(10, n)
        steps:
          - call: read#1
    beats:
      - call: beat#1
        every: 300
  - type: reducer
    nodes: floor(n/2)
    sender: reducer-{node}
    start:
      after: read#1
      of: worker
      share: 1
      wait: 5000
    calls:
      - call: gather#1
        target: master
        method: gather
    aside:
      - call: gather#1
        repeat: n/4
`

func parse(t testing.TB) *program.Program {
	p, err := program.Read("wordcount.yaml", []byte(wordcount))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resolve(t testing.TB, p *program.Program, s Setting) Setting {
	s, err := Resolve(p, s)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGrow(t *testing.T) {
	p := parse(t)
	s := resolve(t, p, Setting{Nodes: map[string]int{"worker": 20}, Start: time.Unix(1e9, 0)})
	if s.Scale != 20 {
		t.Fatalf("the scale is %d, not 20", s.Scale)
	}
	counts := map[string]int{}
	var lines []string
	for c := range Calls(p, s, rand.New(rand.NewPCG(1, 0))) {
		counts[c.Method]++
		if c.Sender == "worker-3" && len(lines) < 3 {
			lines = append(lines, fmt.Sprint(c.Address, " ", c.Method, " ", c.Request))
		}
	}
	if counts["register"] != 20 || counts["read"] != 200 || counts["gather"] != 50 || counts["beat"] < 60 {
		t.Errorf("%v", counts)
	}
	for i, want := range []string{"10.0.0.4 register [{host string host-4}", "/in/part-00000}", "/in/part-00001}"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("call %d is %s, want %s", i, lines[i], want)
		}
	}
	if want := `{lease string {reply "register#1" "lease"}} {at int 1000000000100} {mode string first}`; !strings.Contains(lines[1], want) {
		t.Errorf("%s, want %s", lines[1], want)
	}
}

// TestLists: a list whose length varies has the length that the program gives.
func TestLists(t *testing.T) {
	const text = `version: 1
scales: [3]
types:
  - type: node
    nodes: 2
    sender: node-{node}
    calls:
      - call: report#1
        method: report
        lists:
          disks: ["n"]
          blocks: [1, 2]
        args:
          disks[*].name: disk-{item}
          disks[*].full: false
          blocks[*]: ={reply any "id" each}
    steps:
      - call: report#1
        repeat: 50
`
	p, err := program.Read("lists.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	short, long := 0, 0
	for c := range Calls(p, resolve(t, p, Setting{Scale: 4}), rand.New(rand.NewPCG(1, 0))) {
		request := fmt.Sprint(c.Request)
		if want := "[{disks[0].name string disk-0} {disks[0].full bool false} {disks[1].name string disk-1}"; !strings.HasPrefix(request, want) ||
			!strings.Contains(request, "disks[3].full") || strings.Contains(request, "disks[4]") {
			t.Fatalf("%s", request)
		}
		if strings.Contains(request, "blocks[1]") {
			long++
		} else {
			short++
		}
	}
	if long < 20 || short < 20 {
		t.Errorf("%d calls report one block and %d two, of a hundred that do so as often", short, long)
	}
}

// TestSameSeedSameTraffic: nothing but the seed decides.
func TestSameSeedSameTraffic(t *testing.T) {
	p := parse(t)
	s := resolve(t, p, Setting{Scale: 9})
	play := func() string {
		var out strings.Builder
		w := trace.NewWriter(&out)
		for c := range Calls(p, s, rand.New(rand.NewPCG(7, 0))) {
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if first, second := play(), play(); first != second {
		t.Error("two plays with one seed differ")
	}
}

// TestEnds: a program that a formula makes endless is grown as far as calls are read.
func TestEnds(t *testing.T) {
	for name, steps := range map[string]string{
		"loops that make no call":         "{repeat: 1/0, steps: [{repeat: 1/0, steps: [{call: a#1, repeat: 0}]}]}",
		"loops that make hardly any call": "{repeat: 1/0, steps: [{repeat: 1/0, share: 0.00001, steps: [{call: a#1, repeat: 0.0000000001, share: 0.00001}]}]}",
		"loops that make too many calls":  "{repeat: 1/0, steps: [{repeat: 1/0, steps: [{call: a#1, repeat: 1/0}]}]}",
	} {
		p, err := program.Read("endless.yaml", []byte(`version: 1
scales: [3]
types:
  - {type: node, nodes: 1, sender: node, calls: [{call: a#1, method: a, wait: 1/0}, {call: b#1, method: b}], beats: [{call: b#1, every: 1}], steps: [`+steps+"]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for c := range Calls(p, resolve(t, p, Setting{Scale: 3, Beats: time.Second}), rand.New(rand.NewPCG(1, 0))) {
			if c.Start < 0 {
				t.Fatalf("%s: a call at %d", name, c.Start)
			}
			if made++; made == 5000 {
				break
			}
		}
		if made == 0 {
			t.Errorf("%s: not even its beats", name)
		}
		for range Calls(p, resolve(t, p, Setting{Scale: 3}), rand.New(rand.NewPCG(1, 0))) { // as long as its steps take
			break
		}
	}
}

// TestNoNumber: a formula without a value is left as a placeholder, and not written as
// NaN.
func TestNoNumber(t *testing.T) {
	p, err := program.Read("ring.yaml", []byte(`version: 1
scales: [4, 8]
types:
  - {type: node, nodes: 1, sender: node, calls: [{call: a#1, method: a, args: {slot: '={i%(n-4)}', low: '={0-n/100}'}}], steps: [{call: a#1}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for c := range Calls(p, resolve(t, p, Setting{Scale: 4}), rand.New(rand.NewPCG(1, 0))) {
		if got := fmt.Sprint(c.Request); got != "[{slot string {i%(n-4)}} {low int 0}]" {
			t.Error(got)
		}
	}
}

func TestBadSettings(t *testing.T) {
	p := parse(t)
	for _, s := range []Setting{{}, {Scale: 3, Nodes: map[string]int{"nobody": 1}}, {Nodes: map[string]int{"worker": -1}}, {Nodes: map[string]int{"worker": 1 << 40}}} {
		if _, err := Resolve(p, s); err == nil || !input.Is(err) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	many := program.Program{Types: []program.NodeType{{Name: "pair", Nodes: program.MustFormula("n*n")}}}
	if _, err := Resolve(&many, Setting{Scale: 1_000_000}); !input.Is(err) {
		t.Errorf("a million times a million nodes: %v", err)
	}
}

// TestMemoryIsFlat: a thousand times the nodes take no more memory.
func TestMemoryIsFlat(t *testing.T) {
	p := parse(t)
	held := func(nodes int) (peak uint64) {
		s := resolve(t, p, Setting{Scale: nodes, Beats: time.Millisecond, Nodes: map[string]int{"reducer": 0}})
		runtime.GC()
		calls := 0
		for range Calls(p, s, rand.New(rand.NewPCG(1, 0))) {
			if calls++; calls%50_000 == 0 || calls == 100 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
		return peak
	}
	small, large := held(20), held(20_000)
	if large > small+4<<20 {
		t.Errorf("20 nodes hold %d bytes, 20,000 nodes %d", small, large)
	}
}

func BenchmarkGrow(b *testing.B) {
	for _, nodes := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("%dnodes", nodes), func(b *testing.B) {
			p := parse(b)
			s := resolve(b, p, Setting{Scale: nodes, Beats: time.Millisecond, Nodes: map[string]int{"reducer": 0}})
			b.ReportAllocs()
			calls := 0
			for b.Loop() {
				for range Calls(p, s, rand.New(rand.NewPCG(1, 0))) {
					calls++
				}
			}
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
		})
	}
}
