package upkeep

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/input/mapping"
)

// A Policy says when upkeep is due. The fields have the names of NSDI'17 §3.3; shares are from 0 to 1.
type Policy struct {
	F float64 `json:"f"` // a tier that is fuller than this is relieved of its coldest groups
	D float64 `json:"d"` // unless the tier below is fuller than this
	H float64 `json:"h"` // by how much of its space it is relieved
	M float64 `json:"m"` // disks of a tier are balanced if it is fuller than this
	S float64 `json:"s"` // and its fullest disk is fuller than its emptiest by more than this

	H1 float64 `json:"h1"` // hours between scans of a part of the maps
	H2 float64 `json:"h2"` // hours between scans of all of them

	Floor   float64 `json:"floor"`   // of the time that upkeep may take, while its servers are used most
	Ceiling float64 `json:"ceiling"` // and while they are used least

	Learn float64 `json:"learn"` // 1 if it is learned when relieving the fastest tier pays, in place of f

	Pack   float64 `json:"pack"`   // hours that a group is not used before it is compressed; 0 for never
	Repack float64 `json:"repack"` // hours that it is not used before it is compressed again, as well as can be; 0 for never
	Shards float64 `json:"shards"` // that it is cut into then, beside as many more as disks may be lost; 0 to keep whole replicas
}

// Default is the policy where none is given. Figure 4 of the paper shows f; the others are ours.
func Default() Policy {
	return Policy{F: 0.75, D: 0.90, H: 0.15, M: 0.35, S: 0.15, H1: 1, H2: 6, Floor: 0.1, Ceiling: 0.4}
}

// Partial and Full are how long it is between scans.
func (p Policy) Partial() time.Duration { return hours(p.H1) }
func (p Policy) Full() time.Duration    { return hours(p.H2) }

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }

// maxShards is how many shards a group may be cut into (volume.MaxData).
const maxShards = 16

// leastPace is the least share of the time that upkeep may be given: less than that it would never be done.
const leastPace = 0.01

// leastHours and mostHours are between what scans may be apart: a second and a year.
const leastHours, mostHours = 1.0 / 3600, 365 * 24

// ReadPolicy reads a policy: a YAML mapping of field to number. What it does not name is as Default has it. file is what it is called in errors.
func ReadPolicy(file string, text []byte) (Policy, error) {
	p := Default()
	doc, err := mapping.Document(file, text)
	if err != nil || doc == nil {
		return p, err
	}
	f := mapping.File(file)
	fields := p.fields()
	lines := map[string]*yaml.Node{}
	err = f.Fields(doc, "the policy", nil, func(name string, value *yaml.Node) (bool, error) {
		field, known := fields[name]
		if !known {
			return false, nil
		}
		lines[name] = value
		if err := value.Decode(field.value); err != nil || value.Tag == "!!null" || !field.allows(*field.value) {
			return true, f.Wrong(value, "%s: %q is not %s", name, value.Value, field)
		}
		return true, nil
	})
	if err != nil {
		return p, err
	}
	for _, order := range p.orders() {
		if order.kept {
			continue
		}
		at := lines[order.field]
		if at == nil {
			at = lines[order.other]
		}
		return p, f.Wrong(at, "%s", order.says)
	}
	return p, nil
}

// Check says what is wrong with a policy.
func (p Policy) Check() error {
	for _, name := range []string{"f", "d", "h", "m", "s", "h1", "h2", "floor", "ceiling", "learn", "pack", "repack", "shards"} {
		if field := p.fields()[name]; !field.allows(*field.value) {
			return input.Fieldf(name, "%g is not %s", *field.value, field)
		}
	}
	for _, order := range p.orders() {
		if !order.kept {
			return input.Fieldf(order.field, "%s", order.says)
		}
	}
	return nil
}

type field struct {
	value       *float64
	least, most float64
	off, whole  bool // it may be 0, and must have no fraction
}

func (f field) allows(x float64) bool {
	return f.off && x == 0 || x >= f.least && x <= f.most && (!f.whole || x == math.Trunc(x))
}

func (f field) String() string {
	text := fmt.Sprintf("a number from %g to %g", f.least, f.most)
	switch {
	case f.whole && f.least == f.most:
		return "0 or 1"
	case f.whole:
		text = "a whole number" + strings.TrimPrefix(text, "a number")
	case f.most == mostHours:
		text = fmt.Sprintf("a number of hours from a second to %g", f.most)
	}
	if f.off {
		text += ", or 0"
	}
	return text
}

func (p *Policy) fields() map[string]field {
	share := func(value *float64) field { return field{value: value, most: 1} }
	hours := func(value *float64, off bool) field { return field{value, leastHours, mostHours, off, false} }
	return map[string]field{"f": share(&p.F), "d": share(&p.D), "h": share(&p.H), "m": share(&p.M), "s": share(&p.S), "h1": hours(&p.H1, false), "h2": hours(&p.H2, false),
		"floor": {value: &p.Floor, least: leastPace, most: 1}, "ceiling": {value: &p.Ceiling, least: leastPace, most: 1},
		"learn": {&p.Learn, 1, 1, true, true},
		"pack":  hours(&p.Pack, true), "repack": hours(&p.Repack, true), "shards": {&p.Shards, 2, maxShards, true, true}}
}

// An order is one that two fields must be in.
type order struct {
	field, other string
	kept         bool
	says         string
}

func (p Policy) orders() []order {
	return []order{
		{"h", "f", p.H <= p.F, "h must not be above f: a tier cannot be relieved of more than it holds"},
		{"h1", "h2", p.H1 <= p.H2, "h1 must not be above h2: a scan of all maps is one of each"},
		{"floor", "ceiling", p.Floor <= p.Ceiling, "floor must not be above ceiling: upkeep may take more of the time while servers are used less"},
		{"pack", "repack", p.Pack <= p.Repack || p.Repack == 0, "pack must not be above repack: what is compressed again was compressed before"},
	}
}
