package mine

import (
	"cmp"
	"math"
	"slices"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/kind"
	"gleaner/trace/mine/order"
	"gleaner/trace/mine/pace"
	"gleaner/trace/mine/reaction"
	"gleaner/trace/program"
)

// write makes a program of what was learned.
func (m *Model) write() *program.Program {
	p := &program.Program{Version: 1}
	for _, r := range m.runs {
		if !slices.Contains(p.Scales, r.Scale) {
			p.Scales = append(p.Scales, r.Scale)
		}
	}
	slices.Sort(p.Scales)
	refused := m.refused()
	for k := range m.types {
		p.Types = append(p.Types, m.writeType(k, refused))
	}
	return p
}

func (m *Model) writeType(k int, refused map[corpus.SiteID]float64) program.NodeType {
	t := program.NodeType{Name: m.types[k].Name, Nodes: m.nodes[k].Formula, Also: m.others(m.nodes[k])}
	t.Sender, t.Address = kind.Identity(m.c, m.runs, k, t.Name, func(s *corpus.Sender) intern.Symbol { return s.Name }), kind.Identity(m.c, m.runs, k, t.Name, func(s *corpus.Sender) intern.Symbol { return s.Address })
	if rule := m.timing.Starts[k]; rule != nil {
		t.Start = &program.Start{After: rule.Site.Label, Of: m.types[rule.Site.Kind].Name, Share: rule.Share, Wait: program.Interval{Formula: rule.Wait}}
	}
	for _, site := range m.sites.All {
		if site.Kind == k {
			call := m.writeCall(site)
			call.Refused = refused[site.ID]
			t.Calls = append(t.Calls, call)
		}
	}
	st := m.shapes[k]
	steps, loose := st.Lanes(m.sites)
	t.Steps = m.writeSteps(steps)
	for _, site := range st.Beats {
		t.Beats = append(t.Beats, program.Step{Call: site.Label, Every: program.Interval{Formula: program.MustFormula("%d", site.Period/1e6)}})
	}
	t.Leaves = m.timing.Leaves[k] && len(t.Steps) > 0
	for _, site := range loose {
		each := m.each(site)
		t.Aside = append(t.Aside, program.Step{Call: site.Label, Repeat: &each})
	}
	for _, r := range m.reacts {
		if r.Kind == k {
			t.Reactions = append(t.Reactions, m.writeReaction(r))
		}
	}
	return t
}

func (m *Model) writeReaction(r reaction.Reaction) program.Reaction {
	out := program.Reaction{To: []string{m.c.OpOf[r.To].Method}, Heed: program.Heed{Reply: r.Mark.Path, Is: r.Mark.Value, Status: r.Mark.Status, Wait: millis(r.Wait), Again: r.Again}}
	for _, c := range r.Calls {
		out.Calls = append(out.Calls, program.Redo{Call: m.sites.Sites.Of(&c.Like).Label, Wait: millis(c.Wait)})
	}
	return out
}

// millis is a time as an interval; none if it is too short to wait.
func millis(nanos int64) program.Interval {
	if nanos < 1e6 {
		return program.Interval{}
	}
	return program.Interval{Formula: program.MustFormula("%d", nanos/1e6)}
}

// others are the other formulas that fit a count, one for each value that they give
// at a larger scale.
func (m *Model) others(c count.Count) []program.Formula {
	seen := map[int]bool{}
	var out []program.Formula
	for i, f := range c.Forms {
		v := f.At(horizon * m.largest())
		if i > 0 && !seen[v] {
			out = append(out, f)
		}
		seen[v] = true
	}
	return out
}

// each is how often one node calls a site.
func (m *Model) each(st *count.Site) program.Formula {
	c := st.Count
	if st.Nature == count.Until && st.Groups.Exact {
		c = st.Groups
	}
	nodes := m.nodes[st.Kind].Formula
	if nodes.Is(1) {
		return c.Formula
	}
	return program.MustFormula("(%s)/max(1, %s)", c.Formula, nodes)
}

// refused is the share of the calls of each site that the target refused.
func (m *Model) refused() map[corpus.SiteID]float64 {
	out, all := map[corpus.SiteID]float64{}, map[corpus.SiteID]float64{}
	for _, r := range m.runs {
		for i := range r.Calls {
			c := &r.Calls[i]
			all[c.Site]++
			if c.Refused {
				out[c.Site]++
			}
		}
	}
	for site := range out {
		out[site] = math.Ceil(1000*out[site]/all[site]) / 1000 // three digits: for people to read
	}
	return out
}

func (m *Model) writeSteps(steps []*order.Step) []program.Step {
	var out []program.Step
	for _, s := range steps {
		var w program.Step
		if s.Site != nil {
			w.Call = s.Site.Label
		} else {
			repeat := s.Repeat.Formula
			w = program.Step{Repeat: &repeat, Also: m.others(s.Repeat), Steps: m.writeSteps(s.Body)}
		}
		if s.Made < s.Of {
			w.Share = float64(s.Made*1000/s.Of) / 1000 // three digits: for people to read
		}
		out = append(out, w)
	}
	return out
}

func (m *Model) writeCall(st *count.Site) program.Call {
	op := m.c.OpOf[st.Op]
	w := program.Call{Name: st.Label, Target: op.Target, Method: op.Method}
	if ms, ok := m.timing.Gaps[pace.Gap{Site: st.ID}]; ok {
		w.Wait = program.Interval{Formula: ms}
	}
	for _, wait := range m.joins[st.ID] {
		w.Joins = append(w.Joins, program.Join{After: wait.After.Label, Share: wait.Share()})
	}
	if st.Until != nil {
		w.Until = &program.Until{Path: m.c.Paths.Text[st.Until.Path], Value: m.c.Syms.Text[st.Until.Value], Tries: float64(int(st.Tries*1000)) / 1000}
		if ms, ok := m.timing.Gaps[pace.Gap{Site: cmp.Or(st.Alike, st).ID, Again: true}]; ok {
			w.Until.Every = program.Interval{Formula: ms}
		}
	}
	for _, reach := range st.Reach {
		w.Reach = append(w.Reach, program.Reach{From: reach.From.Label, Nodes: reach.Nodes.Formula})
	}
	w.Lists, w.Args = m.lists.Write(st.Site, m.runs), m.args.Write(st.Site)
	return w
}
