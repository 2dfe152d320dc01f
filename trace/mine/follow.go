package mine

import (
	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/count"
	"gleaner/trace/mine/intern"
	"gleaner/trace/program"
)

// Follow keeps the order of calls about the same thing: path is the argument that names it.
// Each call waits for that call with the same value which came before it in every run, and
// of several for the one that came last. A call whose number is not known is not waited
// for, because it may not be made at all.
func (m *Model) Follow(path string) {
	at := m.c.Paths.ID(path, trace.String)
	before := m.alwaysBefore(at)
	for i := range m.Program.Types {
		t := &m.Program.Types[i]
		ordered := inOrder(t.Steps, map[string]bool{})
		for k := range t.Calls {
			c := &t.Calls[k]
			site := m.labelled(c.Name)
			var last *count.Site
			for _, other := range m.sites.All {
				gap, always := before[site.ID][other.ID]
				known := other.Nature != count.Varying && other.Nature != count.Realtime && (other.Count.Exact || other.Groups.Exact)
				if !always || !known || ordered[c.Name] && ordered[other.Label] {
					continue
				}
				if last == nil || gap < before[site.ID][last.ID] {
					last = other
				}
			}
			c.Joins = nil // what a call is about says more than the order of whole runs
			if last != nil {
				c.Joins = program.Joins{{After: last.Label, Same: path}}
			}
		}
	}
}

func (m *Model) labelled(name string) *count.Site {
	for _, st := range m.sites.All {
		if st.Label == name {
			return st
		}
	}
	return nil
}

// inOrder adds the calls of some steps, whose order is known anyhow.
func inOrder(steps []program.Step, in map[string]bool) map[string]bool {
	for _, s := range steps {
		in[s.Call] = true
		inOrder(s.Steps, in)
	}
	return in
}

// A mention is a call about some thing.
type mention struct {
	site  corpus.SiteID
	start int64
}

// alwaysBefore is, for each site, the sites of which a call about the same thing began
// before each of its calls, and how long before, over all its calls.
func (m *Model) alwaysBefore(path intern.PathID) map[corpus.SiteID]map[corpus.SiteID]int64 {
	out := map[corpus.SiteID]map[corpus.SiteID]int64{}
	for _, r := range m.runs {
		said := map[intern.Symbol][]mention{} // by what they are about, in the order of their starts
		for i := range r.Calls {
			c := &r.Calls[i]
			leaf := m.c.Shapes.Find(c.Request.Shape, path)
			if leaf < 0 || c.Site == corpus.NoSite {
				continue
			}
			about := c.Request.Values[leaf]
			gaps := map[corpus.SiteID]int64{}
			for _, other := range said[about] {
				if other.start < c.Start && other.site != c.Site {
					gaps[other.site] = c.Start - other.start
				}
			}
			keep(out, c.Site, gaps)
			said[about] = append(said[about], mention{c.Site, c.Start})
		}
	}
	return out
}

// keep keeps the sites that came before this call of a site too.
func keep(out map[corpus.SiteID]map[corpus.SiteID]int64, site corpus.SiteID, gaps map[corpus.SiteID]int64) {
	if out[site] == nil {
		out[site] = gaps
		return
	}
	for other := range out[site] {
		gap, again := gaps[other]
		if !again {
			delete(out[site], other)
			continue
		}
		out[site][other] += gap
	}
}
