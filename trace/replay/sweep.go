package replay

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Limits decide when a target has given in, and when the players are the limit.
type Limits struct {
	Latency time.Duration // p99 from sending to the reply; 0: 1 s
	Errors  float64       // share of calls without a reply, or refused beyond what the smallest scale refuses; 0: 1%
	Lag     time.Duration // p99 of how late calls were sent; 0: 50 ms
}

func (l Limits) withDefaults() Limits {
	if l.Latency == 0 {
		l.Latency = time.Second
	}
	if l.Errors == 0 {
		l.Errors = 0.01
	}
	if l.Lag == 0 {
		l.Lag = 50 * time.Millisecond
	}
	return l
}

// A Report is the result of a sweep over scales.
type Report struct {
	Runs []Verdict `json:"runs"` // by scale
	// Held is the largest scale the target held, GaveIn the smallest at which it
	// did not; 0 for none.
	Held   int      `json:"held"`
	GaveIn int      `json:"gave_in"`
	Why    string   `json:"why,omitempty"`  // it gave in
	Said   []string `json:"said,omitempty"` // its errors then, the most frequent first
	// PlayerLimit is the smallest scale at which calls were sent too late to measure
	// the target; 0 for none.
	PlayerLimit int `json:"player_limit"`
}

// A Verdict is one run with its conclusion about the target.
type Verdict struct {
	*Result
	Verdict string `json:"verdict"` // held, gave in, player, cut short
	Why     string `json:"verdict_why,omitempty"`
}

// The verdicts.
const (
	Held   = "held"
	GaveIn = "gave in"
	Player = "player" // the players, not the target, were the limit
	Cut    = "cut short"
)

// Judge concludes from a run whether the target held. usual is the share of calls that
// the target refuses at the smallest scale.
func (l Limits) Judge(r *Result, usual float64) Verdict {
	l = l.withDefaults()
	v := Verdict{Result: r, Verdict: Held}
	bad, asked := r.failures()
	share := float64(bad) / max(float64(asked), 1)
	missed := 0
	for _, c := range r.Calls {
		missed += c.Missed
	}
	switch {
	case float64(r.Starved) > l.Errors*float64(asked):
		v.Verdict, v.Why = Player, fmt.Sprintf("%d calls found no file or port left on this machine (ulimit -n)", r.Starved)
	case share > usual+l.Errors:
		v.Verdict, v.Why = GaveIn, fmt.Sprintf("%.1f%% of calls were refused or had no reply", 100*share)
	case float64(len(r.Dead)) > l.Errors*float64(r.nodes()):
		v.Verdict, v.Why = GaveIn, fmt.Sprintf("%d of %d nodes were declared dead", len(r.Dead), r.nodes())
	case r.Service.P99 > ms(l.Latency):
		v.Verdict, v.Why = GaveIn, fmt.Sprintf("the slowest hundredth of replies took %.0f ms and more", r.Service.P99)
	case r.Lag.P99 > ms(l.Lag) && r.Busy >= r.Workers:
		v.Verdict, v.Why = Player, fmt.Sprintf("all %d workers were busy, and the other calls %.0f ms late", r.Workers, r.Lag.P99)
	case r.Lag.P99 > ms(l.Lag):
		v.Verdict, v.Why = Player, fmt.Sprintf("a hundredth of calls were sent %.0f ms late and more", r.Lag.P99)
	case r.Ended == "interrupted":
		v.Verdict, v.Why = Cut, "it was interrupted"
	case r.Behind > 0:
		v.Verdict, v.Why = Cut, fmt.Sprintf("it was too short to start all nodes: %d had not when it ended", r.Behind)
	case float64(missed) > l.Errors*float64(r.Made+missed):
		v.Verdict, v.Why = GaveIn, fmt.Sprintf("%d beats passed before the one before was answered", missed)
	}
	return v
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// nodes is how many were played.
func (r *Result) nodes() (n int) {
	for _, of := range r.Nodes {
		n += of
	}
	return n
}

// failures counts the calls that were refused or had no reply, of all.
func (r *Result) failures() (bad, all int) {
	return r.Refused + r.Failed, max(r.Made, r.Answered+r.Failed)
}

// mostRefused is the largest share of refusals at the smallest scale that is usual for
// a program. A target that refuses more does not do its work, and has given in.
const mostRefused = 0.5

// closeEnough is how close the two scales around the knee must come, as a factor, and
// maxBisections how many runs that may take.
const (
	closeEnough   = 1.1
	maxBisections = 6
)

// Sweep plays the scales in turn until the target gives in, and then looks for
// the knee between the last that it held and the first that it did not, by
// bisection. A run that was interrupted is the last; all before it count.
func Sweep(ctx context.Context, scales []int, limits Limits, play func(context.Context, int) (*Result, error)) (*Report, error) {
	report := &Report{}
	usual := 0.0
	try := func(scale int) (Verdict, error) {
		r, err := play(ctx, scale)
		if err != nil {
			return Verdict{}, err
		}
		if _, all := r.failures(); len(report.Runs) == 0 {
			usual = min(float64(r.Refused)/max(float64(all), 1), mostRefused)
		}
		v := limits.Judge(r, usual)
		report.add(v)
		return v, nil
	}
	scales = slices.Clone(scales)
	slices.Sort(scales)
	for _, scale := range scales {
		v, err := try(scale)
		if err != nil {
			return report, err
		}
		if v.Verdict != Held {
			break
		}
	}
	for range maxBisections {
		low, high := report.Held, report.limit()
		if low == 0 || high == 0 || float64(high) <= closeEnough*float64(low) || high-low < 2 || ctx.Err() != nil {
			break
		}
		if _, err := try((low + high) / 2); err != nil {
			return report, err
		}
	}
	return report, nil
}

// limit is the smallest scale that was too large for the target or the players.
func (r *Report) limit() int {
	if r.GaveIn == 0 || r.PlayerLimit > 0 && r.PlayerLimit < r.GaveIn {
		return r.PlayerLimit
	}
	return r.GaveIn
}

func (r *Report) add(v Verdict) {
	r.Runs = append(r.Runs, v)
	slices.SortStableFunc(r.Runs, func(a, b Verdict) int { return a.Scale - b.Scale })
	switch v.Verdict {
	case Held:
		r.Held = max(r.Held, v.Scale)
	case GaveIn:
		if r.GaveIn == 0 || v.Scale < r.GaveIn {
			r.GaveIn, r.Why, r.Said = v.Scale, v.Why, v.said()
		}
	case Player:
		if r.PlayerLimit == 0 || v.Scale < r.PlayerLimit {
			r.PlayerLimit = v.Scale
		}
	}
}

// said is the errors of a run, the most frequent first: refusals of the target, and
// calls without a reply.
func (r *Result) said() []string {
	all := map[string]*Said{}
	for _, c := range r.Calls {
		for _, e := range c.Errors {
			merge(all, map[string]*Said{e.What: &e})
		}
	}
	var out []string
	for _, s := range sorted(all) {
		out = append(out, fmt.Sprintf("%d times: %s", s.Count, s.What))
	}
	return out[:min(len(out), 10)]
}
