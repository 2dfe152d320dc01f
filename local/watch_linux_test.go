package local

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
)

// A spell is a time in which the primary uses a given amount.
type spell struct {
	from, to time.Duration
	use      cluster.MilliCPU
}

// used is what a glance or sample between two times measures: the spells, on top of
// base all the time.
func used(base cluster.MilliCPU, spells []spell, from, to time.Duration) cluster.MilliCPU {
	sum := float64(base) * float64(to-from)
	for _, s := range spells {
		sum += float64(s.use) * float64(max(min(s.to, to)-max(s.from, from), 0))
	}
	return cluster.MilliCPU(math.Round(sum / float64(to-from)))
}

// A notice is a detected rise of the primary, and its level.
type notice struct {
	at  time.Duration
	now cluster.MilliCPU
}

// watched measures spells in virtual time as a world does: a report a second, and
// glances in between.
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

// A burst is detected within 400 ms, wherever it falls between two glances.
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

// A program that runs for a moment is not a burst, however much it uses and however often it runs.
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

// The kernel samples who runs at ticks, 250 a second on each core, so that a glance
// counts a few too many or too few. That is not a burst: on an idle machine the
// primary seems to rise rarely, and hardly.
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

// A world reports a rise at once, and its reports still add up to the total use.
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

// A played world is two cores in virtual time: World's own glances and reports of a
// simulated primary, and tasks that run until they are killed.
type played struct {
	World
	total []float64 // thousandths of a core, times milliseconds, up to each millisecond
	at    int       // in milliseconds
	queue []cluster.Event
	kills int
}

// newPlayed plays spells of an hour.
func newPlayed(base cluster.MilliCPU, spells []spell, glancing bool) *played {
	const length = int(time.Hour / time.Millisecond)
	use := make([]float64, length+1)
	for _, s := range spells {
		for ms := s.from.Milliseconds(); ms < min(s.to.Milliseconds(), int64(length)); ms++ {
			use[ms] += float64(s.use)
		}
	}
	p := &played{total: make([]float64, length+1)}
	for ms := range length {
		p.total[ms+1] = p.total[ms] + min(float64(base)+use[ms], 2000)
	}
	p.server = cluster.Server{ID: "here", CPU: 2 * cluster.Core, Memory: 16 * cluster.GB}
	p.Server, p.tasks = "here", map[cluster.TaskID]*task{}
	since := func(last *int) cluster.MilliCPU {
		mean := (p.total[p.at] - p.total[*last]) / float64(p.at-*last)
		*last = p.at
		return cluster.MilliCPU(math.Round(mean))
	}
	var sampled, glanced int
	p.Sample = func() (Sample, error) { return Sample{Primary: cluster.Resources{CPU: since(&sampled)}}, nil }
	if glancing {
		p.Glance = func() (cluster.MilliCPU, error) { return since(&glanced), nil }
	}
	p.left = p.perReport()
	p.queue = []cluster.Event{
		{Kind: cluster.ServerJoined, Server: &p.server},
		{Kind: cluster.UseReported, Use: []cluster.Use{{On: "here", Primary: cluster.Resources{CPU: base}}}},
		{Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: 1, Name: "fill", Stages: []cluster.Stage{{Name: "fill", Tasks: 100,
			Request: cluster.Resources{CPU: 300, Memory: cluster.GB / 4}, Command: []string{"x"}}}}},
	}
	return p
}

func (p *played) Next(context.Context) (cluster.Event, error) {
	for len(p.queue) == 0 {
		if p.at += 1000 / p.perReport(); p.at >= len(p.total) {
			return cluster.Event{}, io.EOF
		}
		if err := p.look(); err != nil {
			return cluster.Event{}, err
		}
		p.queue, p.news = append(p.queue, p.news...), nil
	}
	ev := p.queue[0]
	p.queue = p.queue[1:]
	ev.At = time.Unix(0, 0).Add(time.Duration(p.at) * time.Millisecond)
	return ev, nil
}

func (p *played) Do(a cluster.Action) error {
	switch a.Kind {
	case cluster.StartTask:
		p.tasks[a.Task] = nil
		p.queue = append(p.queue, cluster.Event{Kind: cluster.TaskStarted, Task: a.Task, On: a.On, Request: a.Request})
	case cluster.KillTask:
		p.kills++
		delete(p.tasks, a.Task)
		p.queue = append(p.queue, cluster.Event{Kind: cluster.TaskKilled, Task: a.Task, On: a.On, Reason: a.Reason})
	}
	return nil
}

// How many tasks are killed on a machine whose primary is idle except for programs
// that use a core now and then. Glances hardly kill more tasks for programs that end
// within 200 ms; they do for those that last longer and would have ended before the
// next sample: that is the price of reacting in time.
func TestKillsBesideANoisyPrimary(t *testing.T) {
	for _, tc := range []struct {
		name           string
		every, longest time.Duration
		most           int // kills in an hour that glances may add
	}{
		{"a shell: up to 200 ms every 3 s", 3 * time.Second, 200 * time.Millisecond, 15},
		{"a build: up to 600 ms every 10 s", 10 * time.Second, 600 * time.Millisecond, 250},
		{"bursts: up to 5 s every 2 min", 2 * time.Minute, 5 * time.Second, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var spells []spell
			for at := time.Duration(0); at < time.Hour; at += tc.longest + time.Duration(r.ExpFloat64()*float64(tc.every)) {
				spells = append(spells, spell{at, at + time.Duration(r.Int64N(int64(tc.longest))), cluster.Core})
			}
			kills := map[bool]int{}
			for _, glancing := range []bool{false, true} {
				p := newPlayed(50, spells, glancing)
				reserve := harvest.ReserveFor(p.server.Size(), true)
				policy, err := harvest.PolicyNamed("history")
				if err != nil {
					t.Fatal(err)
				}
				brain := control.NewBrain(harvest.Options{Policy: policy, Reserve: reserve, Rand: rand.New(rand.NewPCG(1, 1)), Steady: 15 * time.Second})
				if err := control.Run(t.Context(), p, brain, nil); err != nil {
					t.Fatal(err)
				}
				kills[glancing] = p.kills
			}
			t.Logf("%d programs in an hour: %d kills by samples alone, %d with glances", len(spells), kills[false], kills[true])
			if kills[true] > kills[false]+tc.most {
				t.Errorf("glances kill %d, and samples alone %d", kills[true], kills[false])
			}
		})
	}
}
