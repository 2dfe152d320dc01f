package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gleaner/input"
	"gleaner/plan/spec"
)

// An Answer is what a latency goal asks for: that nothing a task waits for is too busy.
//
// A station that is busy for a share u of the time makes a share u of those who come wait. If one
// execution keeps it busy for m at most, at a stretch, they wait no longer than at an M/M/1 queue in
// which services take m on average: an exponential time of mean m / (1 - u). For what is left of
// a service of at most m is evenly distributed below it, or less.
//
// An execution waits at one station after the other. All its waits together vary no more, in the
// convex order, than if all were long at the same time, so that their percentile is not above the
// sum of the means beyond the percentile of each: with the tail e = 1 - percentile, that is m / (1 - u) times
// u / e, or ln(u / e) + 1 where u > e. Of n waits at a time, the longest counts: any of them is longer
// than something n times as often as one, at most.
type Answer struct {
	Rate    int     // of the SLA
	Others  float64 // m: the longest stretch for which others keep a station busy that it waits for
	Seconds float64 // S: of an execution that waits for nobody; the least of them while datasets have a choice
	Busy    float64 // u: the most that a station may be; 0 if even an idle cluster is too slow
}

// answers computes how busy stations may be for the goals of the SLA, and lowers the
// targets to that, unless a goal cannot be met.
func (n *needing) answers() {
	n.hurry = newHurry(&n.clock)
	for i, r := range n.in.SLA.Rates {
		if r.Latency > 0 {
			j := n.hurry.journey(r.Task)
			n.out.Answers = append(n.out.Answers, Answer{i, j.others, j.alone, mostBusy(j, r)})
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
func mostBusy(j journey, r spec.Rate) float64 {
	tail := 1 - r.Percentile
	low, high := 0.0, 1.0
	for range 60 {
		u := (low + high) / 2
		sum := j.alone
		for _, n := range slices.Sorted(maps.Keys(j.waits)) { // in one order, to give the same sum
			sum += j.waits[n] / (1 - u) * beyond(n*u/tail)
		}
		if sum <= r.Latency {
			low = u
		} else {
			high = u
		}
	}
	return low
}

// beyond is the mean of an exponential time of mean 1, beyond a percentile: often is how often
// there is one, as a multiple of the tail.
func beyond(often float64) float64 {
	if often > 1 {
		return math.Log(often) + 1
	}
	return often
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
				why = "by itself"
				if a.Others > a.Seconds {
					why += fmt.Sprintf(", waits for others that take %s at a time", duration(a.Others))
				}
				why += fmt.Sprintf(", and so that %.12g%% are in time, all that it waits for would have to be idle for more than %g%% of the time", 100*r.Percentile, 100*(1-leastBusy))
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
