package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gleaner/input"
)

// A reader reads a document and collects every mistake in it.
type reader struct {
	file     string
	mistakes input.Errors
	settings []Setting
	drawn    func(Number) float64 // nil: every uncertain number is at its median
}

func (r *reader) mistake(line int, format string, args ...any) {
	r.mistakes = append(r.mistakes, r.place(&input.Error{Where: r.file, Line: line, Msg: fmt.Sprintf(format, args...)}))
}

// err returns the mistakes in the order of their lines.
func (r *reader) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(r.mistakes, func(a, b *input.Error) int { return a.Line - b.Line })
	return r.mistakes
}

// document finds the outermost element wrap; elements loose may also be at the top
// level without it, as in Figure 2(a).
func document(file string, data []byte, wrap string, loose ...string) (*node, error) {
	root, err := outermost(file, data, wrap, loose)
	if err == nil && len(root.children) > maxElements {
		err = input.Linef(file, root.children[maxElements].line, "<%s> has more than %d elements, which is too many to plan", wrap, maxElements)
	}
	return root, err
}

func outermost(file string, data []byte, wrap string, loose []string) (*node, error) {
	roots, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	if len(roots) == 1 && roots[0].name == wrap {
		return roots[0], nil
	}
	if len(roots) > 0 {
		ok := !slices.ContainsFunc(roots, func(n *node) bool { return !slices.Contains(loose, n.name) })
		if ok {
			return &node{name: wrap, line: 1, children: roots}, nil
		}
	}
	if len(roots) == 0 {
		return nil, input.Errorf(file, "empty; expected <%s>", wrap)
	}
	if roots[0].name == wrap {
		return nil, input.Linef(file, roots[1].line, "<%s> after the end of <%s>", roots[1].name, wrap)
	}
	return nil, input.Linef(file, roots[0].line, "<%s> is not <%s>; are the files swapped?", roots[0].name, wrap)
}

// take returns an attribute's value and line and marks it as known.
func (r *reader) take(n *node, name string) (value string, line int, ok bool) {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	n.taken[name] = true
	for _, a := range n.attrs {
		if a.name == name {
			return a.value, a.line, true
		}
	}
	return "", n.line, false
}

// done reports attributes and elements that are unknown or given twice.
func (r *reader) done(n *node, children ...string) {
	seen := map[string]bool{}
	for _, a := range n.attrs {
		if !n.taken[a.name] {
			r.mistake(a.line, "%s: unknown attribute %q%s", n.describe(), a.name, nearest(a.name, n.taken))
		}
		if seen[a.name] {
			r.mistake(a.line, "%s: %s is written twice", n.describe(), a.name)
		}
		seen[a.name] = true
	}
	for _, c := range n.children {
		if !slices.Contains(children, c.name) {
			r.mistake(c.line, "%s: unknown element <%s>", n.describe(), c.name)
		}
	}
}

// nearest suggests the known name that differs only in case or punctuation,
// or that contains the given one.
func nearest(name string, known map[string]bool) string {
	fold := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	var candidates []string
	for k := range known {
		a, b := fold(k), fold(name)
		if a == b || len(b) > 2 && (strings.Contains(a, b) || strings.Contains(b, a)) {
			candidates = append(candidates, k)
		}
	}
	if len(candidates) == 0 {
		return ""
	}
	slices.Sort(candidates)
	return fmt.Sprintf("; did you mean %q?", candidates[0])
}

// A want is what an attribute may be.
type want struct {
	kind      kind
	otherwise float64 // if it is not given
	required  bool
	positive  bool    // 0 is a mistake
	most      float64 // 0: no limit
}

func (r *reader) number(n *node, name string, w want) float64 {
	text, line, ok := r.take(n, name)
	if !ok {
		if w.required {
			r.mistake(n.line, "%s: %s is missing", n.describe(), name)
		}
		return w.otherwise
	}
	text, err := r.settle(n, name, text)
	v := 0.0
	if err == nil {
		v, err = w.kind.quantity(text)
	}
	switch {
	case err != nil:
		r.mistake(line, "%s: %s: %v", n.describe(), name, err)
		return w.otherwise
	case w.positive && v == 0:
		r.mistake(line, "%s: %s: must be more than 0", n.describe(), name)
		return w.otherwise
	case w.most > 0 && v > w.most:
		r.mistake(line, "%s: %s: %s is more than %g", n.describe(), name, text, w.most)
		return w.otherwise
	}
	return v
}

func (r *reader) whole(n *node, name string, w want) int {
	v := r.number(n, name, w)
	if text, _, _ := r.take(n, name); !certain(text) {
		v = math.Round(v)
	}
	if v != math.Trunc(v) || v > 1e6 {
		_, line, _ := r.take(n, name)
		r.mistake(line, "%s: %s: %g is not a whole number up to a million", n.describe(), name, v)
		return 0
	}
	return int(v)
}

func (r *reader) flag(n *node, name string, otherwise bool) bool {
	text, line, ok := r.take(n, name)
	if !ok {
		return otherwise
	}
	v, err := yesNo(text)
	if err != nil {
		r.mistake(line, "%s: %s: %q: %v", n.describe(), name, text, err)
	}
	return v
}

// word is one of choices, or any text that is not empty.
func (r *reader) word(n *node, name, otherwise string, required bool, choices ...string) string {
	text, line, ok := r.take(n, name)
	if !ok {
		if required {
			r.mistake(n.line, "%s: %s is missing", n.describe(), name)
		}
		return otherwise
	}
	text = strings.TrimSpace(text)
	if text == "" {
		r.mistake(line, "%s: %s is empty", n.describe(), name)
	}
	if len(choices) > 0 && !slices.Contains(choices, text) {
		r.mistake(line, "%s: %s: %q is not one of %s", n.describe(), name, text, strings.Join(choices, ", "))
		return otherwise
	}
	return text
}

// unique reports a name that is used already.
func (r *reader) unique(seen map[string]int, n *node, name string) {
	if first, twice := seen[name]; twice {
		r.mistake(n.line, "%s: the name is taken on line %d", n.describe(), first)
		return
	}
	seen[name] = n.line
}
