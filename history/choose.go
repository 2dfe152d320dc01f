package history

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"gleaner/cluster"
)

// Month is how much history tells a pattern (OSDI'16 §3.2).
const Month = 30 * 24 * time.Hour

// A Choice says which window of the history is wanted. What is zero is chosen
// from the samples.
type Choice struct {
	Tenant cluster.TenantID // whose servers are looked at; "" is all
	Length time.Duration    // the longest it may be; zero is all there is
	Step   time.Duration    // of a slot; zero is what Step chooses
	To     time.Time        // the last slot ends by then; zero is after the last sample, see lastEnd
}

// LastWindow chooses the window to learn from, at the end of the history; all
// callers that learn get their window here. later is how many servers have
// samples after its end, if To is zero. The window is empty if To or Length leave
// no slot. Without samples the error is ErrEmpty; if a step is to be chosen and no
// server has two samples, it is ErrTooFew.
func (s *Store) LastWindow(ctx context.Context, c Choice) (w cluster.Window, later int, err error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return w, 0, err
	}
	all, err := s.summaries(ctx, l)
	if err != nil {
		return w, 0, err
	}
	all = slices.DeleteFunc(all, func(sum Summary) bool {
		return sum.Samples == 0 || c.Tenant != "" && c.Tenant != sum.Tenant()
	})
	if len(all) == 0 {
		return w, 0, ErrEmpty
	}
	if c.Step == 0 {
		if c.Step, err = s.step(ctx, l, all); err != nil {
			return w, 0, err
		}
	}
	if c.Length == 0 {
		c.Length = math.MaxInt64
	}
	to := c.To.Truncate(c.Step)
	if c.To.IsZero() {
		var end time.Time
		end, later = lastEnd(all, c.Length)
		to = end.Truncate(c.Step).Add(c.Step)
	}
	first := slices.MinFunc(all, func(a, b Summary) int { return a.First.Compare(b.First) }).First
	return cluster.WindowBefore(to, first, c.Length, c.Step), later, nil
}

// lastEnd chooses where a window of the given length should end: at the last
// sample of some server. It is the latest such moment whose window has at least a
// tenth of the samples of the fullest, so that one clock in the future does not
// leave all other servers out. later is how many servers have samples after it.
func lastEnd(all []Summary, length time.Duration) (end time.Time, later int) {
	ends := lastOfDays(all)
	full := make([]float64, len(ends))
	for i, e := range ends {
		for _, sum := range all {
			full[i] += sum.within(e.Add(-length), e)
		}
	}
	enough := slices.Max(full) / 10
	end = ends[slices.IndexFunc(full, func(f float64) bool { return f >= enough })]
	for _, sum := range all {
		if sum.Last.After(end) {
			later++
		}
	}
	return end, later
}

// lastOfDays gives, for each day (UTC) on which servers have their last sample,
// the latest of these; the latest day comes first.
func lastOfDays(all []Summary) []time.Time {
	byDay := map[int64]time.Time{}
	for _, sum := range all {
		if day := sum.Last.UnixMilli() / dayMilli; sum.Last.After(byDay[day]) {
			byDay[day] = sum.Last
		}
	}
	return slices.SortedFunc(maps.Values(byDay), func(a, b time.Time) int { return b.Compare(a) })
}

// within estimates how many samples are after from and not after to, as if they
// were evenly spread.
func (sum *Summary) within(from, to time.Time) float64 {
	a, b := float64(max(from.UnixMilli(), sum.First.UnixMilli()-1)), float64(min(to.UnixMilli(), sum.Last.UnixMilli()))
	return float64(sum.Samples) * max(0, b-a) / float64(sum.Last.UnixMilli()-sum.First.UnixMilli()+1)
}

// steps are the lengths of a slot: round ones that divide a day.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 10 * time.Minute, 12 * time.Minute,
	15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour,
	8 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// RoundStep gives the slot for samples that mostly come every interval: the
// shortest step that is not shorter than the interval, so that no slot is empty
// because it is too short. It may be shorter by 5%, for jitter.
func RoundStep(interval time.Duration) time.Duration {
	for _, step := range steps {
		if float64(step) >= 0.95*float64(interval) {
			return step
		}
	}
	return steps[len(steps)-1]
}

// chooseStep rounds the median interval, and takes a longer step if samples
// come so irregularly that more than a third of the slots would be empty. An
// interval of more than ten times the mean is an outage, and does not count.
// Intervals are in milliseconds.
func chooseStep(intervals []int64) time.Duration {
	slices.Sort(intervals)
	step := RoundStep(time.Duration(intervals[len(intervals)/2]) * time.Millisecond)
	all := int64(0)
	for _, x := range intervals {
		all += x
	}
	longest := 10 * all / int64(len(intervals))
	for step < steps[len(steps)-1] {
		covered, missing := int64(0), int64(0)
		for _, x := range intervals {
			if x <= longest {
				covered, missing = covered+x, missing+max(0, x-step.Milliseconds())
			}
		}
		if 3*missing <= covered {
			break
		}
		step = RoundStep(step * 11 / 10)
	}
	return step
}

// stepServers is how many servers Step looks at, and stepIntervals how many intervals of each.
const (
	stepServers   = 100
	stepIntervals = 1000
)

// Step chooses the length of a slot for a window at the end of the history: about
// the median interval between samples of a server. all are the store's Summaries.
// It reads the last samples of some servers, evenly chosen. If no server has two
// samples, the error is ErrTooFew.
func (s *Store) Step(ctx context.Context, all []Summary) (time.Duration, error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return 0, err
	}
	return s.step(ctx, l, all)
}

func (s *Store) step(ctx context.Context, l *ledger, all []Summary) (time.Duration, error) {
	var some []Summary
	for _, sum := range all {
		if sum.Samples >= 2 {
			some = append(some, sum)
		}
	}
	if len(some) == 0 {
		return 0, ErrTooFew
	}
	var intervals []int64
	for i := range min(len(some), stepServers) {
		last, err := s.intervals(ctx, l, some[i*len(some)/min(len(some), stepServers)])
		if err != nil {
			return 0, err
		}
		intervals = append(intervals, last...)
	}
	return chooseStep(intervals), nil
}

// intervals gives the last intervals, about stepIntervals, between samples of a
// server that has at least two samples.
func (s *Store) intervals(ctx context.Context, l *ledger, sum Summary) ([]int64, error) {
	mean := sum.Last.Sub(sum.First) / time.Duration(sum.Samples-1)
	from := max(sum.Last.Add(-mean*stepIntervals).UnixMilli(), sum.First.UnixMilli())
	var times []int64
	for points, err := range s.eachDay(ctx, l, sum.ID, from, sum.Last.UnixMilli()+1) {
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			times = append(times, p.milli)
		}
	}
	if len(times) < 2 { // one sample came long after the others
		return []int64{mean.Milliseconds()}, nil
	}
	var out []int64
	for i := 1; i < len(times); i++ {
		out = append(out, times[i]-times[i-1])
	}
	return out, nil
}
