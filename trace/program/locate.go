package program

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
)

// A fault is an error in a program, with its place in the document: the keys and indices
// that lead there.
type fault struct {
	path []any
	err  error
}

func (f fault) Error() string { return f.err.Error() }
func (f fault) Unwrap() error { return f.err }

// at adds where an error is, relative to the part of the document that contains it.
func at(err error, path ...any) error {
	if err == nil {
		return nil
	}
	var inner fault
	if errors.As(err, &inner) {
		path = append(path, inner.path...)
	}
	return fault{path, err}
}

// named turns a fault into an input error with its line.
func named(name string, text []byte, err error) error {
	var f fault
	var doc yaml.Node
	if !errors.As(err, &f) || yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return input.Errorf(name, "%v", err)
	}
	return input.Linef(name, lineOf(doc.Content[0], f.path), "%v", err)
}

// lineOf follows a path as far as the document has it.
func lineOf(n *yaml.Node, path []any) int {
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
