package plan

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
)

const farm = `version: 1
scales: [3]
types:
  - type: worker
    nodes: 2*n
    sender: worker-{node}
    calls:
      - {call: join#1, target: master, method: join, args: {kind: plain}}
      - call: work#1
        target: master
        method: work
        args:
          id: '{reply "join#1" "id"}'
          seq: ={reply "work#1" "seq" | "0"}
          job: '{reply "submit#1" "jobs[0].id" each by anyone}'
          parts[*].name: '{reply "submit#1" "jobs[0].name" where reply "jobs[].id" is "job" index row 0}'
          parts[*].size: 1
      - {call: done#1, target: store, method: done, join: {after: work#1, share: 1}, args: {by: '{request "join#1" "kind"}', last: '{reply method "work" "seq" i}'}}
      - {call: beat#1, target: master, method: beat}
      - {call: got#1, target: master, method: got, reach: [{from: submit#1, nodes: 2}]}
    steps:
      - call: join#1
      - {repeat: 3, steps: [{call: work#1}]}
      - call: done#1
    beats: [{call: beat#1, every: 500+node}]
    aside: [{call: got#1, repeat: 2}]
  - type: client
    nodes: 1
    sender: client
    start: {after: join#1, wait: 0}
    calls: [{call: submit#1, target: master, method: submit}]
    steps: [{call: submit#1}]
`

func planned(t *testing.T) *Plan {
	p, err := program.Read("farm", []byte(farm))
	if err != nil {
		t.Fatal(err)
	}
	return New(p, grow.Setting{Scale: 4}, func(role string) bool { return role == "master" })
}

// TestPlan: why each call is made, what waits for it, and where its arguments come from.
func TestPlan(t *testing.T) {
	pl := planned(t)
	var got []string
	for _, st := range pl.Sites {
		line := fmt.Sprintf("%s: %s", st.Name, st.Nature)
		line += said(!st.Sent, " unsent") + said(st.Global, " global")
		for _, k := range st.Starts {
			line += " starts " + k.Name
		}
		for _, other := range st.Opens {
			line += " opens " + other.Name
		}
		for _, other := range st.Feeds {
			line += " feeds " + other.Name
		}
		for i := range st.Request.Args {
			a := &st.Request.Args[i]
			for alt := range a.Value.Alts() {
				if s := pl.Source(alt); s != nil {
					line += ", " + a.Path + said(s.Comes, " comes") + said(s.Gone, " gone")
				}
			}
		}
		got = append(got, line)
	}
	want := `join#1: step starts client
work#1: step global opens done#1, id gone, seq, job comes, parts[*].name comes
done#1: step unsent, by gone, last gone
beat#1: beat
got#1: reach
submit#1: step feeds got#1`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	worker := pl.Kinds[0]
	if worker.Count != 8 || len(worker.Own) != 4 || len(pl.Indexes) != 2 || len(worker.Lanes.Reach) != 1 || len(worker.Lanes.Aside) != 0 {
		t.Errorf("%d workers with %d indexes of their own and %d of all, %d calls for others, %d aside", worker.Count, len(worker.Own), len(pl.Indexes), len(worker.Lanes.Reach), len(worker.Lanes.Aside))
	}
	if every := worker.Lanes.Beats[0].Period(4, 7); every != 507e6 {
		t.Errorf("a beat every %d ns", every)
	}
	if lists := worker.Sites[1].Request.Lists; len(lists) != 1 || lists[0].Prefix != "parts" || len(lists[0].Args) != 2 {
		t.Errorf("the lists of work#1 are %v", lists)
	}
}

func said(is bool, what string) string {
	if is {
		return what
	}
	return ""
}

// TestKept: only leaves that arguments come from are kept, of every element where any may
// be meant.
func TestKept(t *testing.T) {
	pl := planned(t)
	var leaves []trace.Leaf
	for _, path := range []string{"id", "seq", "jobs[0].id", "jobs[1].id", "jobs[1].name", "jobs[1].size"} {
		leaves = append(leaves, trace.Leaf{Path: path})
	}
	for _, tc := range []struct {
		site int
		part program.Part
		want string
	}{{0, program.Reply, "id"}, {0, program.Request, ""}, {1, program.Reply, "seq"}, {5, program.Reply, "jobs[0].id jobs[1].id jobs[1].name"}, {5, program.Request, ""}} {
		var got []string
		for _, l := range pl.Sites[tc.site].Kept(tc.part, leaves) {
			got = append(got, l.Path)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("of %s %v is kept, not %s", pl.Sites[tc.site].Name, got, tc.want)
		}
	}
}
