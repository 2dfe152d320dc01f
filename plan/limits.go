package plan

import (
	"fmt"
	"slices"
	"strings"

	"gleaner/input"
)

// A Limit says that a dataset must use a storage unit, or must not: as its store or
// as its cache.
type Limit struct {
	Dataset int // AllDatasets for every one
	Unit    int
	Cache   int // with Unit as the store and this as its cache; NoCache if any use of Unit counts
	Forbid  bool
}

// AllDatasets is the Dataset of a Limit on every dataset.
const AllDatasets = -1

// ParsePin reads DATASET=UNIT or DATASET=UNIT+UNIT, a store and its cache.
func ParsePin(in Input, text string) (Limit, error) {
	for d, data := range in.App.Datasets {
		units, ok := strings.CutPrefix(text, data.Name+"=")
		if !ok {
			continue
		}
		l, err := in.limitOn(units)
		l.Dataset = d
		return l, err
	}
	return Limit{}, fmt.Errorf("%q is not DATASET=UNIT with one of the datasets %s", text, strings.Join(in.datasetNames(), ", "))
}

// ParseForbid reads UNIT, DATASET=UNIT or DATASET=UNIT+UNIT.
func ParseForbid(in Input, text string) (Limit, error) {
	l, err := in.limitOn(text)
	l.Dataset = AllDatasets
	if err != nil {
		pin, wrong := ParsePin(in, text)
		if !strings.Contains(text, "=") {
			return l, err
		}
		l, err = pin, wrong
	}
	l.Forbid = true
	return l, err
}

func (in Input) datasetNames() []string {
	var out []string
	for _, d := range in.App.Datasets {
		out = append(out, d.Name)
	}
	return out
}

// limitOn reads UNIT or UNIT+UNIT. Names may have any signs in them.
func (in Input) limitOn(text string) (Limit, error) {
	var known []string
	for u, unit := range in.HW.Units {
		known = append(known, unit.Name)
		if text == unit.Name {
			return Limit{Unit: u, Cache: NoCache}, nil
		}
		for c, cache := range in.HW.Units {
			if text == unit.Name+"+"+cache.Name {
				return Limit{Unit: u, Cache: c}, nil
			}
		}
	}
	return Limit{}, fmt.Errorf("%q is not a storage unit, or two with a +; %s has %s", text, in.HW.File, strings.Join(known, ", "))
}

// allows reports whether a dataset may be kept as chosen.
func (l Limit) allows(dataset int, c Choice) bool {
	if l.Dataset != AllDatasets && l.Dataset != dataset {
		return true
	}
	uses := c.Store == l.Unit || c.Cache == l.Unit
	if l.Cache != NoCache {
		uses = c == Choice{l.Unit, l.Cache}
	}
	return uses != l.Forbid
}

// limited leaves out the choices that limits do not allow.
func limited(in Input, dataset int, all []Choice, limits []Limit) ([]Choice, error) {
	left := slices.DeleteFunc(slices.Clone(all), func(c Choice) bool {
		return slices.ContainsFunc(limits, func(l Limit) bool { return !l.allows(dataset, c) })
	})
	if len(left) > 0 {
		return left, nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Names(in.HW))
	}
	if !slices.ContainsFunc(limits, func(l Limit) bool { return !l.Forbid && (l.Dataset == dataset || l.Dataset == AllDatasets) }) {
		return nil, input.Fieldf("forbid", "it leaves nothing for dataset %q, which may lie on %s", in.App.Datasets[dataset].Name, strings.Join(names, ", "))
	}
	return nil, input.Fieldf("pin", "with what is forbidden, it leaves nothing for dataset %q, which may lie on %s", in.App.Datasets[dataset].Name, strings.Join(names, ", "))
}
