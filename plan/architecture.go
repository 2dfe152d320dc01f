package plan

import (
	"strings"

	"gleaner/plan/spec"
)

// NoCache is the Cache of a Choice without one.
const NoCache = -1

// A Choice is where a dataset lies: indices of storage units.
type Choice struct {
	Store int
	Cache int // NoCache for none
}

// An Architecture is a Choice for every dataset, in the application's order.
type Architecture []Choice

// Equal reports whether two architectures choose the same.
func (a Architecture) Equal(b Architecture) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// open is the architecture as choices of one option each.
func (a Architecture) open() [][]Choice {
	out := make([][]Choice, len(a))
	for d, c := range a {
		out[d] = []Choice{c}
	}
	return out
}

// copies are the copies of a dataset by this choice.
func (c Choice) copies(dataset int) []Copy {
	store := Copy{Dataset: dataset, Behind: c.Cache != NoCache, Unit: c.Store}
	if !store.Behind {
		return []Copy{store}
	}
	return []Copy{store, {Dataset: dataset, Cache: true, Unit: c.Cache}}
}

// Names spells a choice: "7.2KDisk", or "7.2KDisk + DRAM" with a cache.
func (c Choice) Names(h spec.Hardware) string {
	if c.Cache == NoCache {
		return h.Units[c.Store].Name
	}
	return h.Units[c.Store].Name + " + " + h.Units[c.Cache].Name
}

// Describe spells an architecture: "photos on 15KDisk, tags on 7.2KDisk + DRAM".
func (a Architecture) Describe(in Input) string {
	parts := make([]string, len(a))
	for i, c := range a {
		parts[i] = in.App.Datasets[i].Name + " on " + c.Names(in.HW)
	}
	return strings.Join(parts, ", ")
}

// choices lists what a dataset may lie on. A cache is a second copy on faster
// storage that answers the reads (Section 4.2.2); it is considered only if it can
// help: for data that is read, and that must be kept on slower storage or is larger
// than its working set.
func choices(in Input, dataset int) []Choice {
	d := in.App.Datasets[dataset]
	size := meanRead(in.App, dataset)
	var out []Choice
	for s, store := range in.HW.Units {
		if d.Persistent && store.Volatile {
			continue
		}
		out = append(out, Choice{s, NoCache})
		if size == 0 || !d.Persistent && d.WorkingSet == 0 {
			continue
		}
		for c := range in.HW.Units {
			if c != s && readTime(in, d, c, size) < readTime(in, d, s, size) {
				out = append(out, Choice{s, c})
			}
		}
	}
	return out
}

// meanRead is the mean size of the records read of a dataset; 0 if none are.
func meanRead(app spec.Application, dataset int) float64 {
	bytes, records := 0.0, 0.0
	for _, t := range app.Tasks {
		for _, op := range t.Path {
			if op.IO != nil && op.IO.Dataset == dataset && !op.IO.Write {
				records += op.Probability * op.IO.Records
				bytes += op.Probability * op.IO.Records * op.IO.RecordSize
			}
		}
	}
	if records == 0 {
		return 0
	}
	return bytes / records
}

func readTime(in Input, d spec.Dataset, unit int, size float64) float64 {
	read, _ := in.App.Through(d.System, in.HW.Units[unit])
	return size/read.RateR + read.GapR
}

// Architectures lists all architectures of an input, or nil if there are more than
// most.
func Architectures(in Input, most int) []Architecture {
	all := []Architecture{nil}
	for d := range in.App.Datasets {
		options := choices(in, d)
		if len(all)*len(options) > most {
			return nil
		}
		var next []Architecture
		for _, a := range all {
			for _, c := range options {
				next = append(next, append(a[:len(a):len(a)], c))
			}
		}
		all = next
	}
	return all
}
