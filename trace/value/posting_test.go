package value

import (
	"testing"

	"gleaner/trace/program"
)

// TestPosting: which of several calls is meant, and that of very many the first ones and
// the last are kept.
func TestPosting(t *testing.T) {
	var few, many Posting[int]
	at := Place{Node: 1, Nth: 2}
	for _, pick := range []program.Pick{program.PickLast, program.PickFirst, program.PickNth, program.PickNode} {
		if got, ok := few.Choose(pick, at); ok {
			t.Errorf("%d was picked out of nothing", got)
		}
	}
	for i := range 2 * keep {
		few.Add(100+i, false)
		many.Add(100+i, true)
	}
	for pick, want := range map[program.Pick]int{program.PickLast: 99 + 2*keep, program.PickFirst: 100, program.PickNth: 102, program.PickNode: 101} {
		if got, ok := many.Choose(pick, at); !ok || got != want {
			t.Errorf("pick %d is %d (%v), not %d", pick, got, ok, want)
		}
	}
	if got, ok := few.Choose(program.PickNth, at); ok || len(few.All()) > 0 {
		t.Errorf("%d was kept", got)
	}
	if got, ok := many.Choose(program.PickNth, Place{Nth: keep - 1}); !ok || got != 99+2*keep || len(many.All()) != keep {
		t.Errorf("the last of %d is %d (%v)", len(many.All()), got, ok)
	}
}
