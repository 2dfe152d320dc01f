package wheel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAgainstAList: a wheel fires the same timers at the same turns as a list that is
// searched from end to end.
func TestAgainstAList(t *testing.T) {
	type sleeper struct {
		timer Timer[sleeper]
		id    int
	}
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(0, 1e13).Draw(t, "start")
		w := New[sleeper](now)
		all := make([]sleeper, 20)
		due := map[int]int64{}
		for i := range all {
			all[i].id, all[i].timer.Of = i, &all[i]
		}
		for range 60 {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "who")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				at := now + rapid.Int64Range(-5e6, 2e10).Draw(t, "due")
				w.Set(&all[i].timer, at)
				due[i] = at
			case 2:
				w.Stop(&all[i].timer)
				delete(due, i)
			case 3:
				now += rapid.Int64Range(0, 9e9).Draw(t, "step")
				var got, want []int
				w.Turn(now, func(s *sleeper) { got = append(got, s.id) })
				for id, at := range due {
					if at <= now {
						want = append(want, id)
						delete(due, id)
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("woke %v, not %v", got, want)
				}
			}
			if w.Len() != len(due) {
				t.Fatalf("%d timers are set, not %d", w.Len(), len(due))
			}
		}
	})
}

func BenchmarkSetAndTurn60000timers(b *testing.B) {
	type sleeper struct{ timer Timer[sleeper] }
	w := New[sleeper](0)
	all := make([]sleeper, 60_000)
	for i := range all {
		all[i].timer.Of = &all[i]
		w.Set(&all[i].timer, int64(i)*50_000)
	}
	now := int64(0)
	for b.Loop() {
		now += 1e6
		w.Turn(now, func(s *sleeper) { w.Set(&s.timer, now+3e9) })
	}
}
