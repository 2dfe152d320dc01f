package site

import (
	"fmt"
	"strings"
	"testing"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
)

// asked is two files that are completed, the first at the second try, with a beat
// between the tries.
const asked = `
c: open(7)
c: false = complete(7)
c: beat()
c: true = complete(7)
c: shut(7)
c: open(8)
c: true = complete(8)
c: shut(8)`

// TestTriesAreOneCall: all tries of a call that is repeated until its reply meets a
// condition have one number.
func TestTriesAreOneCall(t *testing.T) {
	s, r := found(t, asked)
	if got := numbers(s, r, "complete"); got != "[0 1 2]" {
		t.Errorf("calls are numbered %s", got)
	}
	complete := s.All[1]
	path := s.Corpus.Shapes.Paths[r.Calls[3].Response.Shape][0]
	complete.Until = &Condition{Path: path, Value: s.Corpus.Syms.ID("true")}
	s.Number(r)
	if got := numbers(s, r, "complete"); got != "[0 0 1]" {
		t.Errorf("calls that are repeated until the reply is true are numbered %s", got)
	}
}

// TestContexts: a call without a fixed place is no neighbour of others, and all tries of
// a call have the neighbours of the first.
func TestContexts(t *testing.T) {
	s, r := found(t, asked)
	s.Stand(func(st *Site) Standing {
		return map[string]Standing{"open#1": InOrder, "complete#1": Retried, "shut#1": InOrder, "beat#1": Nowhere}[st.Label]
	})
	var got []string
	s.Contexts(r, func(i int32, at Context) {
		got = append(got, fmt.Sprintf("%s<%s>%s", name(s, at.before), s.All[r.Calls[i].Site].Label, name(s, at.after)))
	})
	want := "-<open#1>complete#1 open#1<complete#1>shut#1 open#1<complete#1>shut#1 complete#1<shut#1>open#1 " +
		"shut#1<open#1>complete#1 open#1<complete#1>shut#1 complete#1<shut#1>-"
	if strings.Join(got, " ") != want {
		t.Errorf("contexts\n%s, want\n%s", strings.Join(got, " "), want)
	}
}

// TestTellApart: the first stat, before the read, and the second, after it, become
// two sites; in another run, a stat in a new context goes to the site that has most
// calls.
func TestTellApart(t *testing.T) {
	s, r := found(t, "c: open()\nc: stat()\nc: read()\nc: stat()\nc: shut()\nc: open()\nc: stat()\nc: read()")
	s.Stand(func(*Site) Standing { return InOrder })
	var before, after []Context
	s.Contexts(r, func(i int32, at Context) {
		if s.All[r.Calls[i].Site].Label == "stat#1" {
			if name(s, at.after) == "read#1" {
				before = append(before, at)
			} else {
				after = append(after, at)
			}
		}
	})
	s.TellApart(map[corpus.SiteID][][]Context{1: {after, before}}, []*corpus.Recording{r})
	if got := labels(s, r); got != "open#1 stat#2 read#1 stat#1 shut#1 open#1 stat#2 read#1" {
		t.Errorf("sites %s", got)
	}
	other := minetest.Recording(t, s.Corpus, 5, "c: read()\nc: stat()\nc: shut()\nc: stat()\nc: open()")
	other.Sort()
	s.Place(other)
	if got := labels(s, other); got != "read#1 stat#1 shut#1 stat#2 open#1" {
		t.Errorf("sites in another run %s", got)
	}
}

func found(t *testing.T, log string) (*Sites, *corpus.Recording) {
	c := minetest.Learned(t, []int{3}, func(int) string { return log })
	c.Recordings[0].Sort()
	return Find(c, c.Recordings), c.Recordings[0]
}

func name(s *Sites, key siteKey) string {
	if st := s.byKey[key]; st != nil {
		return st.Label
	}
	return "-"
}

func labels(s *Sites, r *corpus.Recording) string {
	var out []string
	for i := range r.Calls {
		out = append(out, s.All[r.Calls[i].Site].Label)
	}
	return strings.Join(out, " ")
}

func numbers(s *Sites, r *corpus.Recording, method string) string {
	var out []int32
	for i := range r.Calls {
		if s.Corpus.OpOf[r.Calls[i].Op].Method == method {
			out = append(out, r.Calls[i].Nth)
		}
	}
	return fmt.Sprint(out)
}
