package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/input"
)

const small = `version: 1
scales: [3, 6]
types:
  - type: client
    nodes: 1
    sender: client
    calls:
      - call: create#1
        method: create
        wait: 10+2*n
        args:
          src: /in/part-{i:05}
          flag: true
          size: 120000
          note: '{=}a {{b}'
      - call: write#1
        method: write
        until:
          reply: done
          is: "true"
          tries: 1.5
        args:
          id: ={reply "create#1" "id" | request any "id" each where reply "name" is "name" index row 0 word 2 | "0"}
          kind: '{case arg "flag" "true" "a" else "b"}'
          left: ={sum 100 - "size" + "id"}
          at: ={now ms}
          who: '{sender word 1}-{unknown uuid}-{draw "x" "y"}-{first "p" then "q"}-{span "id"}'
    steps:
      - repeat: min(10, n)
        steps:
          - call: create#1
          - call: write#1
            repeat: ceil(n/4)
            share: 0.5
`

// TestRoundTrip: written, read and written again, the same bytes.
func TestRoundTrip(t *testing.T) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{small, string(full)} {
		p, err := Read("p.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		once, err := p.Write()
		if err != nil {
			t.Fatal(err)
		}
		if string(once) != text {
			t.Errorf("written differently:\n%s", once)
		}
	}
}

// TestElements: lists in lists, element by element.
func TestElements(t *testing.T) {
	var c Call
	for _, path := range []string{"id", "nodes[*].name", "nodes[*].disks[*].size", "nodes[*].rack", "tags[*]"} {
		c.Args = append(c.Args, Arg{Path: path})
	}
	c.Lists = Lists{{"nodes", []Formula{MustFormula("2")}}, {"nodes[*].disks", []Formula{MustFormula("n")}}}
	var got []string
	c.Elements(func(l List) int { return l.Lengths[0].At(2) }, func(path string, item int, _ Template) {
		got = append(got, fmt.Sprintf("%s/%d", path, item))
	})
	want := "id/0 nodes[0].name/0 nodes[0].disks[0].size/0 nodes[0].disks[1].size/1 nodes[0].rack/0 " +
		"nodes[1].name/1 nodes[1].disks[0].size/0 nodes[1].disks[1].size/1 nodes[1].rack/1 tags[0]/0"
	if strings.Join(got, " ") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, " "), want)
	}
}

// TestBadPrograms: an edit into nonsense is named.
func TestBadPrograms(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{"min(10, n)", "min(10 n)", "p.yaml:29: formula"},
		{"min(10, n)", "10*m", `p.yaml:29: type client: formula "10*m": "m" is not known here`},
		{"repeat: ceil", "repaet: ceil", "p.yaml:33: no field \"repaet\" is known here"},
		{"          - call: create#1\n          - call: write#1", "          - call: create#9\n          - call: write#1", `p.yaml:31: type client: step "create#9": this type has no such call`},
		{`reply "create#1"`, `reply "create#7"`, `p.yaml:23: type client: call "write#1", argument id: taken from the call "create#7", which does not exist`},
		{`each where`, `each | reply "create#8" "id" | request any "id" where`, `p.yaml:23: type client: call "write#1", argument id: taken from the call "create#8", which does not exist`},
		{"{i:05}", "{i:05", "p.yaml:12: "},
		{"flag: true", "flag:", "p.yaml:13: a value is missing"},
		{"{now ms}", "{now fortnights}", "p.yaml:26: "},
		{"version: 1", "version: 2", "p.yaml:1: version 2"},
		{"share: 0.5", "share: 7", "p.yaml:32: type client: step \"write#1\": a share lies between 0 and 1"},
		{"type: client", "type: \"\"", "p.yaml:4: node type \"\": a type needs a name"},
		{"wait: 10+2*n", "lists: {a: [2*k]}", `p.yaml:10: call "create#1": formula "2*k": "k" is not known here`},
		{"wait: 10+2*n", "lists: {a: []}", "p.yaml:10: the list a has no length"},
		{"scales: [3, 6]", "scales: [0]", "p.yaml:2: a scale lies between 1 and 10000000, not 0"},
		{"share: 0.5", "share: .nan", "p.yaml:32: type client: step \"write#1\": a share lies between 0 and 1, not NaN"},
		{"wait: 10+2*n", "join: [{after: write#1}, {after: write#9}]", `p.yaml:10: type client: call "create#1": joins the call "write#9", which does not exist`},
		{"wait: 10+2*n", "join: {after: write#1, shares: 1}", "p.yaml:10: field shares not found in a join"},
		{"wait: 10+2*n", "join: [7]", "p.yaml:10: "},
		{"wait: 10+2*n", "join: {after: write#1, share: 2}", "p.yaml:10: call \"create#1\": a share lies between 0 and 1, not 2"},
		{"wait: 10+2*n", "join: {after: write#1, same: nothing}", "p.yaml:10: call \"create#1\": it and \"write#1\" do not both have an argument \"nothing\""},
		{"wait: 10+2*n", "join: {after: write#1, same: nothing, share: 1}", "p.yaml:10: call \"create#1\": waits for a share of nodes, or for a call with the same argument, and not for both"},
		{"tries: 1.5", "every: k", `p.yaml:21: call "write#1": formula "k": "k" is not known here`},
		{"wait: 10+2*n", "reach: [{from: write#1, nodes: k}]", `p.yaml:10: call "create#1": formula "k": "k" is not known here`},
		{"wait: 10+2*n", "reach: [{from: create#1, nodes: n}]", `p.yaml:10: call "create#1": it is made for calls that are made for it`},
		{"    calls:", "    start: {after: write#1, wait: 0}\n    calls:", "p.yaml:7: type client: it never starts, because the types it waits for wait for each other"},
		{"    calls:", "    start: {after: write#1, share: 2, wait: 0}\n    calls:", "p.yaml:7: type client: a share lies between 0 and 1, not 2"},
		{"    steps:\n      - repeat", "    beats:\n      - repeat", "p.yaml:29: type client: a beat is a call, and no loop"},
	} {
		if !strings.Contains(small, tc.old) {
			t.Fatalf("%q is not in the program", tc.old)
		}
		_, err := Read("p.yaml", []byte(strings.Replace(small, tc.old, tc.new, 1)))
		if err == nil || !input.Is(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.new, err, tc.want)
		}
	}
}

func TestFormula(t *testing.T) {
	for text, want := range map[string]float64{
		"3*n+2": 38, "min(10, n)": 10, "floor(n/5)": 2, "n*(n-1)": 132, "ceil(log2(n))": 4, "2^3": 8, "-n+20": 8, "n%5": 2, "max(1, 0-n)": 1, "sqrt(n*3)": 6,
	} {
		f, err := ParseFormula(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Eval(Vars{N: 12}); got != want {
			t.Errorf("%s is %g at 12, not %g", text, got, want)
		}
	}
	for _, same := range [][2]string{{"n*(n-1)", " (n)*( n-1 )"}, {"-n", "0-n"}, {"min(3, n)", "min(3,n)"}, {"1", "1.0"}} {
		if a, b := MustFormula("%s", same[0]), MustFormula("%s", same[1]); !a.Equal(b) {
			t.Errorf("%s is not %s", a, b)
		}
	}
	for _, other := range [][2]string{{"n*(n-1)", "n*n-1"}, {"min(3, n)", "max(3, n)"}, {"n", "node"}, {"n", "n+0"}, {"1", "2"}} {
		if a, b := MustFormula("%s", other[0]), MustFormula("%s", other[1]); a.Equal(b) {
			t.Errorf("%s is %s", a, b)
		}
	}
	if f := MustFormula("2*min(3, ceil(n/2))"); !f.Calls(Max, Ceil) || !f.Calls(Min) || f.Calls(Floor, Log2) || f.Line() || f.Is(2) {
		t.Errorf("%s calls min and ceil", f)
	}
	if f := MustFormula("2*n+1"); f.Calls(Min, Max, Floor, Ceil, Log2, Sqrt) || !f.Line() || MustFormula("n*n").Line() || !MustFormula("7").Line() {
		t.Errorf("%s is a line, n*n is none", f)
	}
	if !MustFormula("1").Is(1) || MustFormula("n").Is(0) || !(Formula{}).Is(0) {
		t.Error("1 is 1, n is no number, and no formula is 0")
	}
	for _, bad := range []string{"", "3+", "min(1)", "f(2)", "(1", "1)", "a b", strings.Repeat("(", 80) + "1", strings.Repeat("1+", maxFormula) + "1"} {
		if _, err := ParseFormula(bad); err == nil {
			t.Errorf("%.40q is no formula", bad)
		}
	}
}

func FuzzProgram(f *testing.F) {
	f.Add(small)
	for _, name := range glob(f) {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Read("p.yaml", []byte(text))
		if err != nil {
			return
		}
		once, err := p.Write()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read("p.yaml", once)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
		if twice, _ := again.Write(); string(twice) != string(once) {
			t.Fatalf("written twice differently:\n%s\n%s", once, twice)
		}
	})
}

func glob(f *testing.F) []string {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	return names
}

// everyAlt has each way to know a value once, with every word that each may have.
var everyAlt = []string{
	`"a \"b\""`, "i*2+1", "min(n, node)", `first "a" then "b"`,
	"now ns", "now us", "now ms", "now s", "now rfc3339", "now hexns", `draw "a"`, `draw "a" "b" "c"`,
	`like "a"`, "unknown uuid", "unknown hex", "unknown int", "unknown port", "unknown bytes", "unknown word", "unknown time",
	"sender", "sender word 0", "address", "address word 3", `arg "a[0].b"`, `arg "a[0].b" index item 0 word 1`,
	`case i "0" "a" "1" "b"`, `case node "0" "a"`, `case item "0" "a"`, `case n "3" "a" else ""`, `case arg "x" "" "a" else "b"`,
	"sum 7", `sum -100 - "a" + "b"`, `span "a"`,
	`reply "c#1" "p"`, `request "c#1" "p"`, `reply method "c" "p" first`, `request any "p" i`, `reply any "p" node`, `reply any "p" each by anyone`,
	`reply "c#1" "p" by address`, `reply "c#1" "p[0]" where request "q[0]" is "a" index row 0 word 2`, `reply "c#1" "p" first where reply "q" is "a"`,
	`reply "c#1" "p[0][0]" index item 1`, `reply "c#1" "p[0]" index node 0`, `reply "c#1" "p[0]" index i 0`,
}

// TestEveryAlt: each way to know a value prints as it was written.
func TestEveryAlt(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range everyAlt {
		got, err := ParseTemplate("{" + text + "}")
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != "{"+text+"}" {
			t.Errorf("%s became %s", text, got)
		}
		for a := range got.Alts() {
			seen[fmt.Sprintf("%T", a)] = true
		}
	}
	if len(seen) != 14 {
		t.Errorf("%d types, not 14: %v", len(seen), seen)
	}
}

// TestBadAlts: words that mean nothing where they stand are errors.
func TestBadAlts(t *testing.T) {
	for _, text := range []string{
		"", `"a`, "k", `first "a"`, `first "a" then`, "now", "now fortnights", "draw", "unknown", "unknown thing", "like", "like a", "sender by anyone", "address first", "sender word",
		"sender word -1", `arg`, `arg "a" each`, `arg "a" index row 0`, `arg "a" index item`, `case x "a" "b"`, `case i "a"`, `case i "a" "b" else`, `case arg "a"`,
		`sum a`, `sum 1.5`, `sum 1 - 2`, `span 7`, `reply "p"`, `reply "" "p"`, `reply call "c" "p"`, `reply any "p" by nobody`, `reply any "p" where "q" is "a"`,
		`reply any "p" where call "q" is "a"`, `reply any "p" where reply "q" "a"`, `reply any "p" index 0`, `reply any "p" index item -1`, `reply any "p" word 99999999999`,
	} {
		if got, err := ParseTemplate("{" + text + "}"); err == nil {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range everyAlt {
		f.Add("{" + s + "}")
	}
	for _, s := range []string{"a{i}b", `={reply "c#1" "x[0].y" each by anyone word 3 | "0"}`, "{{", "{=}", "{i%(2*n)+1:05}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseTemplate(s)
		if err != nil {
			return
		}
		b, err := ParseTemplate(a.String())
		if err != nil || b.String() != a.String() {
			t.Fatalf("%q became %q and then %q (%v)", s, a.String(), b.String(), err)
		}
	})
}

// A program is read as a listing with its loops, and says how its arguments are known.
func TestListing(t *testing.T) {
	p, err := Read("p.yaml", []byte(`version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: floor(n/2)
    also: [ceil(n/3)]
    sender: worker-{node}
    start: {after: open#1, of: client, share: 1, wait: 5}
    calls:
      - call: take#1
        target: master
        method: take
        until: {reply: ok, is: "true", tries: 2}
        args: {id: '{reply "take#1" "id"}', uuid: '{unknown uuid}', number: '={i+1}', kind: plain}
      - call: beat#1
        target: master
        method: beat
    steps:
      - repeat: 2*n
        steps:
          - call: take#1
            share: 0.5
    beats:
      - {call: beat#1, every: 3000}
    leaves: true
  - type: client
    nodes: 1
    sender: client
    calls:
      - call: open#1
        target: store
        method: open
    aside:
      - {call: open#1, repeat: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `worker: floor(n/2) nodes, each called worker-{node} (or ceil(n/3))
    starts 5 ms after open#1 of all client
    repeat 2*n times:
        take#1 master.take(id: {reply "take#1" "id"}, uuid: {unknown uuid}, number: ={i+1}, kind: plain), by 50% of the nodes
            until ok of the reply is true
    meanwhile, every 3000 ms:
        beat#1 master.beat()
    leaves

client: 1 nodes, each called client
    in no order:
        repeat 3 times:
            open#1 store.open()
`
	if got := p.Listing(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := p.Coverage(); len(got) != 2 || got[0] != (Coverage{"master", 1, 1, 1, 1}) || got[1] != (Coverage{Target: "store"}) {
		t.Errorf("%+v", got)
	}
	if made := p.Types[0].Made(10); made != 5*20*0.5 {
		t.Errorf("%g calls of workers at 10", made)
	}
	if made := p.Types[1].Made(10); made != 3 {
		t.Errorf("%g calls of clients at 10", made)
	}
}
