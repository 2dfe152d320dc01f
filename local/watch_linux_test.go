package local

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/cluster"
)

// A spell is a while in which the primary uses so much.
type spell struct {
	from, to time.Duration
	use      cluster.MilliCPU
}

// used is what a glance or sample from one moment to another sees of spells,
// above a primary that uses as much as base all the time.
func used(base cluster.MilliCPU, spells []spell, from, to time.Duration) cluster.MilliCPU {
	sum := float64(base) * float64(to-from)
	for _, s := range spells {
		sum += float64(s.use) * float64(max(min(s.to, to)-max(s.from, from), 0))
	}
	return cluster.MilliCPU(math.Round(sum / float64(to-from)))
}

// A notice is that the primary has risen, and to what.
type notice struct {
	at  time.Duration
	now cluster.MilliCPU
}

// watched looks at spells in virtual time, the way a world does: a report a
// second, and glances between.
func watched(base cluster.MilliCPU, spells []spell, length time.Duration, noise func() cluster.MilliCPU) (all []notice) {
	const glance = time.Second / glances
	w := watch{told: base}
	reported := time.Duration(0)
	for at := glance; at < length; at += glance {
		now, rose := w.glance(max(used(base, spells, at-glance, at)+noise(), 0))
		if !rose && at-reported < time.Second {
			continue
		}
		w.told = used(base, spells, reported, at)
		reported = at
		if rose {
			w.told = max(w.told, now)
			all = append(all, notice{at, w.told})
		}
	}
	return all
}

func silence() cluster.MilliCPU { return 0 }

// However a burst falls between two glances, it is known for what it is within 400 ms.
func TestABurstIsSeenWhereverItFalls(t *testing.T) {
	const from, limit = 3 * time.Second, 400*time.Millisecond + 1
	for shift := range 200 {
		begin := from + time.Duration(shift)*time.Millisecond
		seen := watched(100, []spell{{begin, time.Minute, 1900}}, 5*time.Second, silence)
		if last := len(seen) - 1; last < 0 || seen[last].now <= 2000-risen || seen[last].at-begin > limit {
			t.Fatalf("a burst to 2 cores %v after a report: %v", begin-from, seen)
		}
	}
}

// What runs for a moment is not a burst, however much it takes and however often it comes.
func TestAMomentIsNotABurst(t *testing.T) {
	for _, tc := range []struct{ length, every time.Duration }{
		{50 * time.Millisecond, 300 * time.Millisecond},
		{100 * time.Millisecond, 400 * time.Millisecond},
		{200 * time.Millisecond, 5 * time.Second},
	} {
		for shift := range 100 {
			var spells []spell
			for at := time.Duration(shift) * time.Millisecond; at < time.Minute; at += tc.every {
				spells = append(spells, spell{at, at + tc.length, 2000})
			}
			if seen := watched(100, spells, time.Minute, silence); len(seen) > 0 {
				t.Fatalf("%v of 2 cores every %v, %d ms after a report: %v", tc.length, tc.every, shift, seen)
			}
		}
	}
}

// The kernel finds out who runs at ticks, 250 of them a second on each core, so
// that a glance sees a few too many or too few. That is not a burst: an
// idle machine's primary seems to rise once in a while, and hardly.
func TestTicksAreNotABurst(t *testing.T) {
	const (
		length = 10 * time.Hour
		use    = cluster.Core / 5
		cores  = 2
		ticks  = 250 * cores / glances // of one glance
	)
	r := rand.New(rand.NewPCG(1, 1))
	noise := func() cluster.MilliCPU {
		hits := 0
		for range ticks {
			if r.Float64() < float64(use)/float64(cores*cluster.Core) {
				hits++
			}
		}
		return cluster.MilliCPU(hits)*cores*cluster.Core/ticks - use
	}
	seen := watched(use, nil, length, noise)
	highest := use
	for _, n := range seen {
		highest = max(highest, n.now)
	}
	t.Logf("%d times in %v, up to %d thousandths of a core where %d are used", len(seen), length, highest, use)
	if highest > 2*use || len(seen) > int(length/time.Hour)*30 {
		t.Errorf("%d times up to %d", len(seen), highest)
	}
}

// A world tells of a rise at once, and its reports still add up to all that
// was used.
func TestReportsAddUp(t *testing.T) {
	const base, burst = cluster.MilliCPU(100), cluster.MilliCPU(1900)
	spells := []spell{{2600 * time.Millisecond, 4200 * time.Millisecond, burst}}
	var at, sampled, glanced time.Duration // virtual
	since := func(last *time.Duration) cluster.MilliCPU {
		use := used(base, spells, *last, at)
		*last = at
		return use
	}
	w := &World{tasks: map[cluster.TaskID]*task{{}: nil}, left: glances, watch: watch{told: base}}
	w.Sample = func() (Sample, error) { return Sample{Primary: cluster.Resources{CPU: since(&sampled)}}, nil }
	w.Glance = func() (cluster.MilliCPU, error) { return since(&glanced), nil }
	var told string
	sum, last := 0.0, time.Duration(0)
	for at = time.Second / glances; at <= 6*time.Second; at += time.Second / glances {
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		for _, ev := range w.news {
			use := ev.Use[0].Primary.CPU
			told += fmt.Sprintf("%.1f:%d ", at.Seconds(), use)
			sum += (at - last).Seconds() * float64(use)
			last = at
		}
		w.news = nil
	}
	const want = "1.0:100 2.0:100 2.9:779 2.9:2000 3.9:2000 4.9:607 5.9:100 "
	if told != want {
		t.Errorf("told %s, want %s", told, want)
	}
	if all := last.Seconds()*float64(base) + 1.6*float64(burst); sum < all-10 || sum > all+10 {
		t.Errorf("reports add up to %.0f, and %.0f was used", sum, all)
	}
}
