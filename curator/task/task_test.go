package task

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// TestQueue tells what a queue does, one story a file. at is the second at which a command happens.
func TestQueue(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		q, err := New([]Class{
			{Kind: "delete", Synchronous: true, Priority: 5},
			{Kind: "repair", Priority: 10, Batch: 2, Most: 4},
			{Kind: "tier", Priority: 1, Batch: 1, Most: 3, Patience: time.Minute},
		})
		if err != nil {
			t.Fatal(err)
		}
		added := map[string]Task{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var at int64
			d.ScanArgs(t, "at", &at)
			return do(q, added, d.Cmd, time.Unix(at, 0), d.Input)
		})
	})
}

func do(q *Queue, added map[string]Task, cmd string, now time.Time, lines string) string {
	var b strings.Builder
	switch cmd {
	case "add": // kind, what, priority
		for line := range strings.Lines(lines) {
			f := strings.Fields(line)
			priority, _ := strconv.ParseInt(f[2], 10, 64)
			t := Task{Job: "job", Kind: f[0], What: []byte(f[1]), Priority: priority}
			verdict, err := q.Add(now, t)
			if added[f[1]] = t; err != nil {
				fmt.Fprintln(&b, err)
				continue
			}
			fmt.Fprintln(&b, f[0], f[1], []string{"queued", "to be done now", "under way", "no room"}[verdict])
		}
	case "next":
		for _, t := range q.Next(now) {
			fmt.Fprintln(&b, t.Kind, string(t.What))
		}
	case "end": // what, outcome
		for line := range strings.Lines(lines) {
			f := strings.Fields(line)
			if err := q.End(now, added[f[0]], Outcome(slices.Index([]string{"done", "refused", "failed"}, f[1]))); err != nil {
				fmt.Fprintln(&b, err)
			}
		}
	case "backlog":
		for _, c := range q.Backlog(now) {
			fmt.Fprintf(&b, "%s: %d wait (oldest %v), %d under way; %d done, %d refused, %d failed, %d left out; to finish %v\n",
				c.Kind, c.Waiting, c.Oldest, c.UnderWay, c.Done, c.Refused, c.Failed, c.LeftOut, c.ToFinish.Round(time.Second))
		}
	}
	return b.String()
}

// A model is a queue that looks at every task each time.
type model struct {
	classes  []Class
	waiting  []entry
	underWay map[string]bool // by kind and what
	turn     map[string]time.Time
}

func (m *model) of(kind string) []entry {
	return slices.DeleteFunc(slices.Clone(m.waiting), func(e entry) bool { return e.task.Kind != kind })
}

func (m *model) add(now time.Time, c Class, t Task) Verdict {
	same := slices.IndexFunc(m.waiting, func(e entry) bool { return e.task.Kind == t.Kind && string(e.task.What) == string(t.What) })
	waiting := len(m.of(t.Kind))
	switch {
	case m.underWay[t.Kind+string(t.What)]:
		return UnderWay
	case same >= 0:
		m.waiting[same].task = t
		return Queued
	case waiting == c.Most:
		return NoRoom
	case waiting == 0:
		m.turn[t.Kind] = now
	}
	m.waiting = append(m.waiting, entry{task: t, since: now})
	return Queued
}

// next takes the class that has waited for its turn for too long, or else the first that has anything.
func (m *model) next(now time.Time) (batch []Task) {
	var chosen *Class
	for i, c := range m.classes {
		late := c.Patience > 0 && now.Sub(m.turn[c.Kind]) >= c.Patience
		if len(m.of(c.Kind)) > 0 && (chosen == nil || late) {
			chosen = &m.classes[i]
		}
	}
	if chosen == nil {
		return nil
	}
	all := m.of(chosen.Kind)
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.task.Priority, a.task.Priority), a.since.Compare(b.since), bytes.Compare(a.task.What, b.task.What))
	})
	for _, e := range all[:min(chosen.Batch, len(all))] {
		batch = append(batch, e.task)
		m.underWay[e.task.Kind+string(e.task.What)] = true
		m.waiting = slices.DeleteFunc(m.waiting, func(w entry) bool { return w.task.Kind == e.task.Kind && string(w.task.What) == string(e.task.What) })
	}
	m.turn[chosen.Kind] = now
	return batch
}

// TestQueueAgainstModel: whatever is added, begun and ended, the queue says what its model says.
func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := []Class{{Kind: "a", Priority: 2, Batch: 2, Most: 5}, {Kind: "b", Priority: 1, Batch: 3, Most: 4, Patience: 5 * time.Second}}
		q, err := New(classes)
		if err != nil {
			t.Fatal(err)
		}
		m := model{classes: classes, underWay: map[string]bool{}, turn: map[string]time.Time{}}
		var begun []Task
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0, 1:
				c := rapid.SampledFrom(classes).Draw(t, "class")
				task := Task{Kind: c.Kind, What: []byte{byte(rapid.IntRange(0, 9).Draw(t, "what"))}, Priority: int64(rapid.IntRange(0, 3).Draw(t, "priority"))}
				if got, err := q.Add(now, task); err != nil || got != m.add(now, c, task) {
					t.Fatalf("added %v: %v, %v", task, got, err)
				}
			case 2:
				got, want := q.Next(now), m.next(now)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("next %v, want %v", got, want)
				}
				begun = append(begun, got...)
			case 3:
				if len(begun) > 0 {
					end := begun[0]
					if err := q.End(now, end, Done); err != nil {
						t.Fatal(err)
					}
					begun = begun[1:]
					delete(m.underWay, end.Kind+string(end.What))
				}
			}
			for _, b := range q.Backlog(now) {
				if b.Waiting != len(m.of(b.Kind)) || b.ToFinish < -1 {
					t.Fatalf("%+v", b)
				}
			}
		}
	})
}

// TestClasses: a class without a kind, a batch or a limit is an error.
func TestClasses(t *testing.T) {
	for _, bad := range [][]Class{{{}}, {{Kind: "a"}}, {{Kind: "a", Batch: 1}}, {{Kind: "a", Synchronous: true}, {Kind: "a", Synchronous: true}}, {{Kind: "a", Batch: 1, Most: 1, Patience: -1}}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}
