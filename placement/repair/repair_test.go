package repair_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"gleaner/placement"
	"gleaner/placement/repair"
)

var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// TestScenarios plays the files of testdata: which servers hold which blocks, which
// of them lose a replica, and who sends what when.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &story{holders: map[string][]placement.ServerIndex{}, answers: map[string]repair.Answer{}, turn: 2 * time.Minute}
		w.queue = repair.New(func(b string) []placement.ServerIndex { return w.holders[b] })
		datadriven.RunTest(t, path, w.do)
	})
}

type story struct {
	queue   *repair.Queue[string]
	holders map[string][]placement.ServerIndex
	answers map[string]repair.Answer // Started for those that are not named
	turn    time.Duration
}

func (w *story) do(t *testing.T, d *datadriven.TestData) string {
	var at string
	d.MaybeScanArgs(t, "at", &at)
	now := epoch
	if at != "" {
		after, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		now = epoch.Add(after)
	}
	names := strings.Fields(d.Input)
	switch d.Cmd {
	case "blocks": // name server…
		for line := range strings.SplitSeq(d.Input, "\n") {
			name, rest, _ := strings.Cut(line, " ")
			w.holders[name] = servers(t, rest)
		}
	case "answer": // started, not-now, no-target or no-need
		var answer string
		d.ScanArgs(t, "is", &answer)
		for _, name := range names {
			w.answers[name] = map[string]repair.Answer{"started": repair.Started, "not-now": repair.NotNow, "no-target": repair.NoTarget, "no-need": repair.NoNeed}[answer]
		}
	case "add":
		for _, name := range names {
			w.queue.Add(name)
		}
	case "add-at":
		w.queue.AddAt(now, names)
	case "turn":
		w.turn = now.Sub(epoch)
	case "leave":
		return strings.Join(w.queue.Leave(servers(t, d.Input)[0]), " ")
	case "start":
		return w.start(now)
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	return ""
}

func (w *story) start(now time.Time) string {
	var out strings.Builder
	w.queue.Start(now, func(placement.ServerIndex) time.Duration { return w.turn }, func(b string, source placement.ServerIndex) repair.Answer {
		answer := max(w.answers[b], repair.Started)
		fmt.Fprintf(&out, "%d sends %s%s\n", source, b, map[repair.Answer]string{repair.NotNow: ": not now", repair.NoTarget: ": no target", repair.NoNeed: ": no need"}[answer])
		return answer
	})
	return out.String()
}

func servers(t *testing.T, text string) (out []placement.ServerIndex) {
	for _, field := range strings.Fields(text) {
		var s placement.ServerIndex
		if _, err := fmt.Sscan(field, &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// A twin is the queue without any optimisation: one list of what waits.
type twin struct {
	holders [][]placement.ServerIndex
	waiting []waits // in order of when they were added
	turns   map[placement.ServerIndex]time.Time
	active  []placement.ServerIndex
	refused []int
	retryAt time.Time
}

type waits struct {
	block, left int
	on          placement.ServerIndex
}

func (w *twin) length(s placement.ServerIndex) (n int) {
	for _, e := range w.waiting {
		if e.on == s {
			n++
		}
	}
	return n
}

func (w *twin) add(b int) {
	at := w.holders[b]
	if len(at) == 0 {
		return
	}
	on := slices.MinFunc(at, func(a, b placement.ServerIndex) int { return w.length(a) - w.length(b) })
	w.waiting = append(w.waiting, waits{b, len(at), on})
	if !slices.Contains(w.active, on) {
		w.active = append(w.active, on)
	}
}

func (w *twin) start(now time.Time, turn time.Duration, start func(int, placement.ServerIndex) repair.Answer) {
	if !now.Before(w.retryAt) {
		again := w.refused
		w.refused, w.retryAt = nil, now.Add(time.Hour)
		for _, b := range again {
			w.add(b)
		}
	}
	for _, s := range w.active {
		if now.Before(w.turns[s]) {
			continue
		}
		var mine, rest []waits
		for _, e := range w.waiting {
			if e.on == s {
				mine = append(mine, e)
			} else {
				rest = append(rest, e)
			}
		}
		slices.SortStableFunc(mine, func(a, b waits) int { return a.left - b.left })
		var later []waits
		for len(mine) > 0 && now.Compare(w.turns[s]) >= 0 {
			e := mine[0]
			mine = mine[1:]
			if left := len(w.holders[e.block]); left > 0 {
				switch start(e.block, s) {
				case repair.Started:
					w.turns[s] = now.Add(turn)
				case repair.NotNow:
					later = append(later, waits{e.block, left, s})
				case repair.NoTarget:
					w.refused = append(w.refused, e.block)
				}
			}
		}
		w.waiting = slices.Concat(rest, mine, later)
	}
	w.active = slices.DeleteFunc(w.active, func(s placement.ServerIndex) bool { return w.length(s) == 0 })
}

func TestTheQueueDecidesAsItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const blocks, servers = 12, 4
		plain := &twin{holders: make([][]placement.ServerIndex, blocks), turns: map[placement.ServerIndex]time.Time{}}
		queue := repair.New(func(b int) []placement.ServerIndex { return plain.holders[b] })
		hold := func(b int) {
			all := rapid.Permutation([]placement.ServerIndex{0, 1, 2, 3}).Draw(t, "servers")
			plain.holders[b] = all[:rapid.IntRange(0, 3).Draw(t, "holders")]
		}
		for b := range blocks {
			hold(b)
		}
		turn := 2 * time.Minute
		now := epoch
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			b := rapid.IntRange(0, blocks-1).Draw(t, "block")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				queue.Add(b)
				plain.add(b)
			case 3:
				hold(b)
			case 4:
				s := placement.ServerIndex(rapid.IntRange(0, servers-1).Draw(t, "leaves"))
				got, want := queue.Leave(s), 0
				plain.waiting = slices.DeleteFunc(plain.waiting, func(e waits) bool {
					if e.on == s {
						want++
					}
					return e.on == s
				})
				if len(got) != want {
					t.Fatalf("%d leaves %v, not %d", s, got, want)
				}
			case 5:
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
				answer := rapid.SliceOfN(rapid.SampledFrom([]repair.Answer{repair.Started, repair.Started, repair.NotNow, repair.NoTarget, repair.NoNeed}), blocks, blocks).Draw(t, "answers")
				var got, want []string
				note := func(to *[]string) func(int, placement.ServerIndex) repair.Answer {
					return func(b int, s placement.ServerIndex) repair.Answer {
						*to = append(*to, fmt.Sprintf("%d: %d", s, b))
						return answer[b]
					}
				}
				queue.Start(now, func(placement.ServerIndex) time.Duration { return turn }, note(&got))
				plain.start(now, turn, note(&want))
				if !slices.Equal(got, want) {
					t.Fatalf("at %v: %v, not %v", now.Sub(epoch), got, want)
				}
			}
		}
	})
}

// A queue that is never empty does not grow.
func TestALongLifeTakesNoMoreMemory(t *testing.T) {
	one := []placement.ServerIndex{0}
	queue := repair.New(func(int) []placement.ServerIndex { return one })
	now, next := epoch, 100
	for b := range next {
		queue.Add(b)
	}
	turn := func(placement.ServerIndex) time.Duration { return time.Minute }
	start := func(int, placement.ServerIndex) repair.Answer { return repair.Started }
	if n := testing.AllocsPerRun(10_000, func() {
		queue.Add(next)
		next++
		now = now.Add(time.Minute)
		queue.Start(now, turn, start)
	}); n != 0 {
		t.Errorf("%v allocations a rebuild", n)
	}
}
