package plan

import (
	"fmt"
	"math"
	"time"

	"gleaner/input"
	"gleaner/plan/spec"
)

// An Answer is what a latency goal asks for: that nothing a task waits for is too busy.
//
// A station that is busy for a share u of the time makes a share u of those who come
// wait, for an exponential time of mean s / (1 - u) if the others take s on average. An
// execution waits at one station after the other. All its waits together vary no more,
// in the convex order, than a single one for all of its own time S, so that their
// percentile is not above the mean of that one beyond the percentile: with the tail
// e = 1 - percentile, that is S / (1 - u) times u / e, or ln(u / e) + 1 where u > e.
type Answer struct {
	Rate    int     // of the SLA
	Seconds float64 // S: of an execution that waits for nobody; the least of them while datasets have a choice
	Busy    float64 // u: the most that a station may be; 0 if even an idle cluster is too slow
}

// answers computes how busy stations may be for the goals of the SLA, and lowers the
// targets to that, unless a goal cannot be met.
func (n *needing) answers() {
	for i, r := range n.in.SLA.Rates {
		if r.Latency > 0 {
			seconds := n.clock.inTurn(r.Task)
			n.out.Answers = append(n.out.Answers, Answer{i, seconds, mostBusy(seconds, r)})
		}
	}
	if n.out.Late() {
		return
	}
	for _, t := range []*float64{&n.out.Targets.CPU, &n.out.Targets.Network, &n.out.Targets.Bus, &n.out.Targets.IO} {
		*t = min(*t, n.out.slack())
	}
}

// mostBusy is how busy stations may be for executions to meet a goal, by bisection.
func mostBusy(seconds float64, r spec.Rate) float64 {
	tail := 1 - r.Percentile
	low, high := 0.0, 1.0
	for range 60 {
		u := (low + high) / 2
		waits := u / tail
		if u > tail {
			waits = math.Log(u/tail) + 1
		}
		if seconds*(1+waits/(1-u)) <= r.Latency {
			low = u
		} else {
			high = u
		}
	}
	return low
}

// leastBusy is the least that stations may be allowed to be busy: a plan for less would
// be absurd.
const leastBusy = 1e-3

// Late reports whether a latency goal cannot be met, however little is done.
func (n Needs) Late() bool { return n.slack() < leastBusy }

// slack is how busy stations may be for all goals: 1 if there are none.
func (n Needs) slack() float64 {
	most := 1.0
	for _, a := range n.Answers {
		most = min(most, a.Busy)
	}
	return most
}

// inTurn is how long an execution takes, waiting for nobody, if all its steps happen one
// after the other, and each read misses its cache: a percentile is not about the mean
// execution.
func (k *clock) inTurn(task int) float64 {
	if k.turns == nil {
		k.turns = make([]*float64, len(k.in.App.Tasks))
	}
	if k.turns[task] == nil {
		sum := 0.0
		for _, op := range k.in.App.Tasks[task].Path {
			if op.Probability > 0 {
				sum += k.turn(op)
			}
		}
		k.turns[task] = &sum
	}
	return *k.turns[task]
}

// turn is how long a step takes that happens. What runs on instances of its own is
// waited for only if it blocks.
func (k *clock) turn(op spec.Op) float64 {
	times := func(n float64) float64 { return math.Ceil(n - 1e-9) }
	switch {
	case op.IO != nil:
		return times(op.IO.Records) * (k.slowest(op.IO) + k.in.App.Datasets[op.IO.Dataset].CPUPerOp)
	case op.Call == nil:
		return op.Compute
	case op.Call.Inline || op.Blocking:
		return times(op.Call.Invocations) * k.inTurn(op.Call.Task)
	}
	return 0
}

// slowest is how long a task waits for a record on the slower of its copies.
func (k *clock) slowest(op *spec.IO) float64 {
	least := math.Inf(1)
	d := k.in.App.Datasets[op.Dataset]
	for _, c := range k.open[op.Dataset] {
		most := k.in.device(d, c.Store, op.Write, op.RecordSize, op.StreamRate)
		if c.Cache != NoCache {
			most = max(most, k.in.device(d, c.Cache, op.Write, op.RecordSize, op.StreamRate))
		}
		least = min(least, most)
	}
	return least
}

// tooSlow keeps the needs that came closest to meeting their latency goals.
func (s *search) tooSlow(needs Needs) {
	if s.late == nil || needs.worst(s.in) < s.late.worst(s.in) {
		s.late = &needs
	}
}

// worst is the time of the execution that is longest for its goal, as a share of that.
func (n Needs) worst(in Input) float64 {
	most := 0.0
	for _, a := range n.Answers {
		most = max(most, a.Seconds/in.SLA.Rates[a.Rate].Latency)
	}
	return most
}

// slow is the error if no choice meets a latency goal.
func (s *search) slow() error {
	for _, a := range s.late.Answers {
		if r := s.in.SLA.Rates[a.Rate]; a.Busy < leastBusy {
			why := "even if nobody is before it"
			if a.Seconds < r.Latency {
				why = fmt.Sprintf("by itself, and so that %.12g%% are in time, all that it waits for would have to be idle for more than %g%% of the time", 100*r.Percentile, 100*(1-leastBusy))
			}
			return input.Linef(s.in.SLA.File, r.Line, "sla: latency: no hardware of %s meets this: an execution of task %q takes up to %s of %s %s",
				s.in.HW.File, s.in.App.Tasks[r.Task].Name, duration(a.Seconds), duration(r.Latency), why)
		}
	}
	return nil
}

// duration spells seconds in three digits.
func duration(seconds float64) string {
	if !(seconds < 1000) {
		return fmt.Sprintf("%.3gs", seconds)
	}
	unit := math.Pow(10, math.Floor(math.Log10(seconds*1e9))-2)
	return time.Duration(seconds * 1e9).Round(time.Duration(max(1, unit))).String()
}
