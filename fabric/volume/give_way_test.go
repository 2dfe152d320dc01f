package volume

import (
	"context"
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// A copy gives way to clients between its steps, but not so often that the clients of its block wait for that: they cannot use it meanwhile.
func TestCopiesGiveWay(t *testing.T) {
	for what, every := range map[string]int64{"whole": 1, "here and there": 2} {
		s, p, _ := faultySpace(t, 1)
		gave := 0
		s = NewSpace(s.maps, p, Options{Answer: time.Second, Patience: 2 * time.Second, GiveWay: func(context.Context) { gave++ }})
		v := faultyVolume(t, s, 1)
		for slice := int64(0); slice < slicesPerBlock; slice += every {
			must(t, v.WriteAt(t.Context(), make([]byte, disk.SliceSize), slice*disk.SliceSize, false))
		}
		if gave != 0 {
			t.Errorf("%s: clients gave way to others %d times", what, gave)
		}
		b, err := v.pin(t.Context(), 0)
		must(t, err)
		pile, err := v.layers(t.Context(), b)
		must(t, err)
		v.unpin(b)
		must(t, v.Relocate(t.Context(), 0, pile[0].extent))
		if want := map[int64]int{1: 3, 2: 0}[every]; gave != want {
			t.Errorf("%s: it gave way %d times, want %d", what, gave, want)
		}
		v.stop()
	}
}
