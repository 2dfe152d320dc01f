package spec

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/input/mapping"
)

// parseYAML reads a document into the same elements as XML: a scalar is an
// attribute, a mapping is an element, a list is one element an entry, named
// by its key (without a plural s). A task's path is a list of one-key
// mappings that name what each step is.
func parseYAML(file string, data []byte) ([]*node, error) {
	doc, err := mapping.Document(file, data)
	if doc == nil || err != nil {
		return nil, err
	}
	root := &node{name: "document", line: 1}
	r := yamlReader{file: file}
	if err := r.fill(root, doc, 0); err != nil {
		return nil, err
	}
	if len(root.attrs) > 0 {
		return nil, input.Linef(file, root.attrs[0].line, "%q stands outside of application, resources and slas", root.attrs[0].name)
	}
	return root.children, nil
}

type yamlReader struct{ file string }

// fill reads a mapping into n. Its keys become attributes and children.
func (r yamlReader) fill(n *node, y *yaml.Node, depth int) error {
	if depth > maxDepth {
		return input.Linef(r.file, y.Line, "nested more than %d deep", maxDepth)
	}
	if y.Kind == yaml.AliasNode {
		return input.Linef(r.file, y.Line, "%s: anchors and aliases are not read", n.name)
	}
	if y.Kind != yaml.MappingNode {
		return input.Linef(r.file, y.Line, "%s: expected key: value pairs", n.name)
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "<<" {
			return input.Linef(r.file, key.Line, "a key must be a plain word")
		}
		if err := r.entry(n, plainName(key.Value), value, depth); err != nil {
			return err
		}
	}
	return nil
}

func (r yamlReader) entry(n *node, name string, y *yaml.Node, depth int) error {
	switch y.Kind {
	case yaml.ScalarNode:
		n.attrs = append(n.attrs, attr{name, y.Value, y.Line})
		return nil
	case yaml.MappingNode:
		child := &node{name: name, line: y.Line}
		n.children = append(n.children, child)
		return r.fill(child, y, depth+1)
	case yaml.SequenceNode:
		return r.list(n, name, y, depth)
	}
	return input.Linef(r.file, y.Line, "%s: anchors and aliases are not read", name)
}

func (r yamlReader) list(n *node, name string, y *yaml.Node, depth int) error {
	if name == "slas" && n.name == "document" { // the document is the list
		group := &node{name: name, line: y.Line}
		n.children = append(n.children, group)
		n = group
	}
	for _, entry := range y.Content {
		if name == "path" {
			if entry.Kind != yaml.MappingNode || len(entry.Content) != 2 {
				return input.Linef(r.file, entry.Line, "a step of a path is one of io:, compute:, dependency:")
			}
			if err := r.entry(n, plainName(entry.Content[0].Value), entry.Content[1], depth+1); err != nil {
				return err
			}
			continue
		}
		child := &node{name: singular(name), line: entry.Line}
		n.children = append(n.children, child)
		if err := r.fill(child, entry, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func singular(s string) string {
	switch {
	case s == "bus" || s == "hours":
		return s
	case s == "buses":
		return "bus"
	case strings.HasSuffix(s, "ies"):
		return strings.TrimSuffix(s, "ies") + "y"
	}
	return strings.TrimSuffix(s, "s")
}
