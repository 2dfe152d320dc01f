package replay

import (
	"context"
	"fmt"
	"slices"

	"gleaner/trace/replay/judge"
)

// A Report is the result of a sweep over scales.
type Report struct {
	Runs []Verdict `json:"runs"` // by scale
	// Held is the largest scale the target held, GaveIn the smallest at which it
	// did not; 0 for none.
	Held   int      `json:"held"`
	GaveIn int      `json:"gave_in"`
	Why    string   `json:"why,omitempty"`  // it gave in
	Said   []string `json:"said,omitempty"` // its errors then, the most frequent first
	// PlayerLimit is the smallest scale at which players were late or the machine was
	// full, so that the run says nothing about the target; 0 for none.
	PlayerLimit int `json:"player_limit"`
	// Broken is the smallest scale at which the program did not fit the target; 0 for
	// none.
	Broken int `json:"broken"`
}

// A Verdict is one run with its conclusion.
type Verdict struct {
	*Result
	Verdict judge.Verdict `json:"verdict"`
	Why     string        `json:"verdict_why,omitempty"`
}

// closeEnough is how close the two scales around the knee must come, as a factor, and
// maxBisections how many runs that may take.
const (
	closeEnough   = 1.1
	maxBisections = 6
)

// Sweep plays the scales in turn until the target gives in, and then looks for
// the knee between the last that it held and the first that it did not, by
// bisection. A run that was interrupted is the last; all before it count.
func Sweep(ctx context.Context, scales []int, limits judge.Limits, play func(context.Context, int) (*Result, error)) (*Report, error) {
	report := &Report{}
	try := func(scale int) (Verdict, error) {
		r, err := play(ctx, scale)
		if err != nil {
			return Verdict{}, err
		}
		v := Verdict{Result: r}
		v.Verdict, v.Why = limits.Judge(r.facts())
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
		if v.Verdict != judge.Held {
			break
		}
	}
	for range maxBisections {
		low, high := report.Held, report.limit()
		if low == 0 || high == 0 || float64(high) <= closeEnough*float64(low) || high-low < 2 || ctx.Err() != nil || report.Broken > 0 {
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
	case judge.Held:
		r.Held = max(r.Held, v.Scale)
	case judge.GaveIn:
		if r.GaveIn == 0 || v.Scale < r.GaveIn {
			r.GaveIn, r.Why, r.Said = v.Scale, v.Why, v.said()
		}
	case judge.Broken:
		if r.Broken == 0 || v.Scale < r.Broken {
			r.Broken = v.Scale
		}
	case judge.Late, judge.Full:
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
