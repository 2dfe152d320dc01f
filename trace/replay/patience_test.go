package replay

import (
	"testing"
	"time"
)

// TestPatience: calls that wait in vain one after another wait less and less, those that began
// together wait equally long, and the first that gets what it waited for restores it.
func TestPatience(t *testing.T) {
	const whole = 16 * time.Second
	var p patience
	var now int64
	inVain := func(calls int) {
		left := p.of(whole, now)
		for range calls {
			if again := p.of(whole, now); again != left {
				t.Errorf("one waits %v and another that began with it %v", time.Duration(left), time.Duration(again))
			}
			p.end(now, now+left)
		}
		now += left
	}
	for range 100 {
		inVain(3)
	}
	if got, want := time.Duration(now), 16*time.Second+8*time.Second+4*time.Second+97*2*time.Second; got != want {
		t.Errorf("a hundred calls waited for %v; want %v", got, want)
	}
	p.met()
	if got := time.Duration(p.of(whole, now)); got != whole {
		t.Errorf("after one that was met they wait %v", got)
	}
}
