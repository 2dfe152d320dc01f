package agent

import (
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/cluster"
)

// What is offered falls at once, and rises only after there was more all the time.
func TestOffer(t *testing.T) {
	o := offer{settle: time.Minute}
	for _, tc := range []struct {
		at        time.Duration
		can, want cluster.MilliCPU
	}{
		{0, 6000, 6000},                // the first one
		{1 * time.Second, 4000, 4000},  // the primary needs two cores
		{2 * time.Second, 6000, 4000},  // and gives them back
		{50 * time.Second, 5000, 4000}, // one of them
		{61 * time.Second, 6000, 4000},
		{62 * time.Second, 6000, 5000}, // one was free all the time
		{100 * time.Second, 7000, 5000},
		{101 * time.Second, 5000, 5000}, // not any more
		{170 * time.Second, 7000, 5000},
		{230 * time.Second, 7000, 7000},
		{231 * time.Second, 0, 0},
	} {
		if got := o.note(time.Unix(0, 0).Add(tc.at), cluster.Resources{CPU: tc.can}); got.CPU != tc.want {
			t.Errorf("after %v %d can be harvested and %d is offered, want %d", tc.at, tc.can, got.CPU, tc.want)
		}
	}
}

// Beside any primary, an offer never is more than can be harvested, and rises at most once
// in the time it takes to settle.
func TestOfferDoesNotFlutter(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	o := offer{settle: time.Minute}
	var last cluster.Resources
	rose := time.Unix(-1000, 0)
	for i := range 100_000 {
		at := time.Unix(0, 0).Add(time.Duration(i) * 75 * time.Millisecond)
		can := cluster.Resources{CPU: cluster.MilliCPU(chance.IntN(8)) * cluster.Core}
		if i/2000%3 == 0 {
			can.CPU = 6 * cluster.Core // quiet for a while
		}
		given := o.note(at, can)
		if !given.Fits(can) {
			t.Fatalf("%v is offered of %v", given, can)
		}
		if i > 0 && given.CPU > last.CPU {
			if at.Sub(rose) < time.Minute {
				t.Fatalf("it rises at %v and %v", rose, at)
			}
			rose = at
		}
		last = given
	}
	if rose.Before(time.Unix(1000, 0)) {
		t.Error("it never rises")
	}
}

// Memory is offered in steps, so that a primary that takes a page changes nothing.
func TestHarvestable(t *testing.T) {
	size := cluster.Resources{CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
	reserve := cluster.Resources{CPU: 4 * cluster.Core, Memory: 10 * cluster.GB}
	a := harvestable(size, cluster.Resources{CPU: 3 * cluster.Core, Memory: 7*cluster.GB + 10*cluster.MB}, reserve)
	b := harvestable(size, cluster.Resources{CPU: 3 * cluster.Core, Memory: 7*cluster.GB + 20*cluster.MB}, reserve)
	if a != b || a.CPU != 5*cluster.Core || a.Memory != 29*cluster.GB/2 {
		t.Errorf("%v and %v", a, b)
	}
	if c := harvestable(size, size, reserve); c != (cluster.Resources{}) {
		t.Errorf("of a busy node: %v", c)
	}
}
