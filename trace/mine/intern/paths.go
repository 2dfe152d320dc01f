package intern

import (
	"strconv"
	"strings"

	"gleaner/trace"
)

// A PathID is a path with the kind of what it leads to, kept once.
type PathID int32

// A ClassID is the same for paths that differ in their indices only.
type ClassID int32

// Paths keeps every path once, with the lists it leads through.
type Paths struct {
	Text    []string // of each path
	Kind    []trace.Kind
	Lists   [][]ListStep // outermost first
	Class   []ClassID
	Classes map[string]ClassID // by the path without its indices
	ids     map[typedPath]PathID
	moved   map[move]PathID
}

// A typedPath is a path with a kind. All numbers have one kind.
type typedPath struct {
	text string
	kind trace.Kind
}

// A move is a path with one of its indices changed.
type move struct {
	path         PathID
	level, index int
}

// A ListStep is where a path leads through a list.
type ListStep struct {
	Prefix     string // up to the bracket
	Start, End int    // of the index in the path
	Index      int
}

// NewPaths has no path.
func NewPaths() Paths {
	return Paths{ids: map[typedPath]PathID{}, Classes: map[string]ClassID{}, moved: map[move]PathID{}}
}

// ID is the number of a path.
func (p *Paths) ID(text string, kind trace.Kind) PathID {
	key := typedPath{text, kind}
	if kind == trace.Float {
		key.kind = trace.Int
	}
	if id, ok := p.ids[key]; ok {
		return id
	}
	text = strings.Clone(text)
	key.text = text
	id := PathID(len(p.Text))
	p.ids[key] = id
	p.Text = append(p.Text, text)
	p.Kind = append(p.Kind, kind)
	steps := listSteps(text)
	p.Lists = append(p.Lists, steps)
	blank := text
	for i := len(steps) - 1; i >= 0; i-- {
		blank = blank[:steps[i].Start] + blank[steps[i].End:]
	}
	if _, ok := p.Classes[blank]; !ok {
		p.Classes[blank] = ClassID(len(p.Classes))
	}
	p.Class = append(p.Class, p.Classes[blank])
	return id
}

// At is a path with the index at one level changed.
func (p *Paths) At(path PathID, level, index int) PathID {
	key := move{path, level, index}
	if to, ok := p.moved[key]; ok {
		return to
	}
	step := p.Lists[path][level]
	text := p.Text[path]
	to := p.ID(text[:step.Start]+strconv.Itoa(index)+text[step.End:], p.Kind[path])
	p.moved[key] = to
	return to
}

func listSteps(text string) []ListStep {
	var out []ListStep
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			end := strings.IndexByte(text[i:], ']')
			if end < 0 {
				return out
			}
			index, err := strconv.Atoi(text[i+1 : i+end])
			if err != nil {
				continue
			}
			out = append(out, ListStep{Prefix: text[:i], Start: i + 1, End: i + end, Index: index})
			i += end
		}
	}
	return out
}
