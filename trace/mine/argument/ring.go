package argument

import (
	"fmt"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/ladder"
	"gleaner/trace/program"
)

// A ring counts nodes and calls together and starts again after the last number:
// in a ring of four, node 2 takes 2, 3, 0, 1.
type ring struct {
	shift, low int64
	length     program.Formula
}

func (r ring) alt(*Rules, *arg) program.Alt { return program.Number{Formula: r.formula()} }
func (r ring) class() class                 { return regular }

func (r ring) at(o flow.Occ, length int64) int64 {
	return (nth.of(o)+node.of(o)+r.shift)%length + r.low
}

func (r ring) formula() program.Formula {
	f := "(i+node"
	if r.shift != 0 {
		f += fmt.Sprintf("%+d", r.shift)
	}
	f += fmt.Sprintf(")%%(%s)", r.length)
	if r.low != 0 {
		f += fmt.Sprintf("%+d", r.low)
	}
	return program.MustFormula("%s", f)
}

// ringRule finds numbers that rise with the node and with the call, in a ring whose
// length follows the scale. They must start again in more than one run. Numbers
// above 2^30 are identifiers, and no length of a ring.
func (s *slot) ringRule(c *corpus.Corpus) rule {
	low, high := map[*corpus.Recording]int64{}, map[*corpus.Recording]int64{}
	values := make([]int64, len(s.arg.occs))
	for i, o := range s.arg.occs {
		v, ok := s.value(c, o)
		if !ok {
			return nil
		}
		if values[i], ok = c.Syms.Number(v); !ok || values[i] < 0 || values[i] > 1<<30 {
			return nil
		}
		if _, seen := low[o.In]; !seen {
			low[o.In], high[o.In] = values[i], values[i]
		}
		low[o.In], high[o.In] = min(low[o.In], values[i]), max(high[o.In], values[i])
	}
	r := ring{low: low[s.arg.occs[0].In]}
	var points []ladder.Point
	for run := range low {
		if low[run] < r.low {
			return nil // a ring starts at the same number at every scale
		}
		points = append(points, ladder.Point{N: run.Scale, V: int(high[run] - r.low + 1)})
	}
	forms := ladder.Exact(points)
	if len(forms) == 0 || forms[0].Constant() {
		return nil
	}
	r.length = forms[0]
	again := map[*corpus.Recording]bool{}
	for i, o := range s.arg.occs {
		length := int64(r.length.At(o.In.Scale))
		if i == 0 {
			r.shift = ((values[0]-r.low-nth.of(o)-node.of(o))%length + length) % length
		}
		if r.at(o, length) != values[i] {
			return nil
		}
		again[o.In] = again[o.In] || nth.of(o)+node.of(o)+r.shift >= length
	}
	wraps := 0
	for _, yes := range again {
		if yes {
			wraps++
		}
	}
	if wraps < 2 {
		return nil
	}
	return r
}
