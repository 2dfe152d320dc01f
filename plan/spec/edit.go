package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gleaner/input"
)

// An Edit changes how a document is read: attributes that are set, or where in
// their range uncertain numbers lie.
type Edit func(*reader)

// Set sets attributes before a document is read, in the order given. Each document
// takes the settings of its own elements.
func Set(settings []Setting) Edit { return func(r *reader) { r.settings = settings } }

// A Setting is an attribute by its path, and its new value.
type Setting struct {
	Text  string // as written
	path  []string
	value string
}

// ParseSetting reads PATH=VALUE. A path names elements from the outside in, by kind
// and name, and then the attribute: storage_unit/SSD/price=$300. * is every name, a
// task's steps are task/NAME/step/1, and a value x0.8 is 0.8 times the one there.
func ParseSetting(text string) (Setting, error) {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" || strings.TrimSpace(value) == "" {
		return Setting{}, fmt.Errorf("%q is not PATH=VALUE, for example storage_unit/SSD/price=$300", text)
	}
	return Setting{Text: text, path: strings.Split(path, "/"), value: strings.TrimSpace(value)}, nil
}

// document is the outermost element that a path is about.
func (s Setting) document() string {
	switch s.path[0] {
	case "dataset", "task", "storage_system":
		return "application"
	case "sla", "utilisation", "survive", "budget", "least":
		return "slas"
	case "harvested":
		return "harvested"
	}
	return "resources"
}

// prepare takes the edits, and sets what is set.
func (r *reader) prepare(root *node, edits []Edit) {
	for _, e := range edits {
		e(r)
	}
	for k, s := range r.settings {
		if s.document() != root.name {
			continue
		}
		path := s.path
		if root.name == "harvested" { // the document is the element
			path = path[1:]
		}
		if err := set(root, path, s.value, settingLine(k)); err != nil {
			r.mistake(settingLine(k), "%v", err)
		}
	}
}

// settingLine stands for the line of what a setting wrote.
func settingLine(k int) int { return -1 - k }

// place says where a mistake is: on a line, or in a setting.
func (r *reader) place(e *input.Error) *input.Error {
	if e.Line < 0 {
		e.Where, e.Line, e.Field = "", 0, "set "+r.settings[-1-e.Line].Text
	}
	return e
}

// set follows a path from a node and sets the attribute at its end.
func set(n *node, path []string, value string, line int) error {
	if len(path) == 0 {
		return fmt.Errorf("name an attribute of %s", n.describe())
	}
	if len(path) == 1 {
		return n.set(plainName(path[0]), value, line)
	}
	found, rest, err := n.follow(path)
	if err != nil {
		return err
	}
	for _, c := range found {
		if err := set(c, rest, value, line); err != nil {
			return err
		}
	}
	return nil
}

// follow finds the children that the start of a path names, and the rest of it.
func (n *node) follow(path []string) (found []*node, rest []string, err error) {
	kind, kids := path[0], []*node(nil)
	for _, c := range n.children {
		if c.name == kind || kind == "step" && n.name == "task" {
			kids = append(kids, c)
		}
	}
	if len(kids) == 0 {
		return nil, nil, fmt.Errorf("%s has no %s", n.describe(), kind)
	}
	if len(path) == 2 {
		if len(kids) > 1 {
			return nil, nil, fmt.Errorf("there are several, write %s/NAME/%s with one of %s, or *", kind, path[1], strings.Join(called(kids), ", "))
		}
		return kids, path[1:], nil
	}
	for i, name := range called(kids) {
		if path[1] == "*" || path[1] == name {
			found = append(found, kids[i])
		}
	}
	if len(found) == 0 {
		return nil, nil, fmt.Errorf("there is no %s %q, only %s", kind, path[1], strings.Join(called(kids), ", "))
	}
	return found, path[2:], nil
}

// called are the names by which a path tells elements apart: their name, an SLA's
// task, a step's number.
func called(nodes []*node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = strconv.Itoa(i + 1)
		for _, a := range n.attrs {
			if a.name == "name" || n.name == "sla" && a.name == "task" {
				out[i] = a.value
			}
		}
	}
	return out
}

// set sets an attribute, which need not be there unless it is multiplied.
func (n *node) set(name, value string, line int) error {
	i := slices.IndexFunc(n.attrs, func(a attr) bool { return a.name == name })
	if factor, ok := strings.CutPrefix(value, "x"); ok {
		k, err := strconv.ParseFloat(factor, 64)
		if err != nil {
			return fmt.Errorf("%q is not a factor, for example x0.8", value)
		}
		if i < 0 {
			return fmt.Errorf("%s has no %s to multiply", n.describe(), name)
		}
		if value, err = times(n.attrs[i].value, k); err != nil {
			return fmt.Errorf("%s: %s: %v", n.describe(), name, err)
		}
	}
	if i < 0 {
		n.attrs = append(n.attrs, attr{name, value, line})
		return nil
	}
	n.attrs[i].value, n.attrs[i].line = value, line
	return nil
}

// times multiplies every number of a quantity, which is several of one that is
// uncertain, and keeps its unit.
func times(text string, k float64) (string, error) {
	if u, err := uncertain(text); err == nil {
		return u.times(k), nil
	}
	q, err := cut(text)
	if err != nil {
		return "", err
	}
	return q.write(q.number * k), nil
}
