package mine

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
)

// TestFollow: a node reports after the operator has made it, a cleaner removes it after its
// report, and somebody looks at some of them now and then. The threads of the nodes, and the
// order in which nodes are made, differ from run to run.
func TestFollow(t *testing.T) {
	logs := corpus.New()
	for n := 3; n <= 6; n++ {
		run := logs.Begin(fmt.Sprintf("n%d", n))
		now := int64(1e9)
		call := func(sender, method, name string) {
			now += 1e6
			run.Add(&trace.Call{Scale: n, Start: now, End: now + 1e5, Sender: sender, Target: "server", Method: method, Request: []trace.Leaf{{Path: "name", Kind: trace.String, Value: name}}})
		}
		for i := range n {
			call("operator", "make", fmt.Sprint("node-", (i+n/2)%n))
		}
		for i := range n {
			name := fmt.Sprint("node-", (2*n-i)%n)
			call(name, "report", name)
			if i*n%3 == 1 {
				call("visitor", "look", name)
			}
		}
		for i := range n {
			call("cleaner", "remove", fmt.Sprint("node-", i))
		}
		logs.Learn(run)
	}
	o, err := ReadOverrides("o.yaml", []byte("same: name\nwithout: stranger\n"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.Learn(t.Context(), "o.yaml", logs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for c := range m.Program.EachCall() {
		for _, j := range c.Joins {
			got = append(got, fmt.Sprintf("%s after %s with the same %s", c.Name, j.After, j.Same))
		}
	}
	want := []string{"report#1 after make#1 with the same name", "look#1 after report#1 with the same name", "remove#1 after report#1 with the same name"}
	for _, w := range want {
		if !strings.Contains(strings.Join(got, "\n"), w) {
			t.Errorf("%q is missing in %q", w, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%q", got)
	}
	if !o.LeavesOut("stranger") || o.LeavesOut("strangers") || (&Overrides{}).LeavesOut("") {
		t.Error("a pattern is of whole names, and none leaves nobody out")
	}
}

// TestBadPatterns: what is no regular expression is named with its line.
func TestBadPatterns(t *testing.T) {
	for _, text := range []string{"without: '('", "without: ''", "arguments: [{method: '[', argument: a, value: b}]"} {
		if _, err := ReadOverrides("o.yaml", []byte("types: []\n"+text)); err == nil || !strings.Contains(err.Error(), "o.yaml:2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
