// Package mapping reads the fields of a YAML mapping and names the line of every
// mistake: a field that is not known, comes twice or is missing.
package mapping

import (
	"go.yaml.in/yaml/v3"

	"gleaner/input"
)

// Fields calls take for every field of a mapping in a file. A field that take
// does not know, or that comes twice, or one of needed that is missing is a
// mistake of what is read, as "the job".
func Fields(file string, n *yaml.Node, what string, needed []string, take func(field string, value *yaml.Node) (known bool, err error)) error {
	wrong := func(at *yaml.Node, format string, args ...any) error {
		return input.Linef(file, at.Line, format, args...)
	}
	if n.Kind != yaml.MappingNode {
		return wrong(n, "%s must be a list of fields with values", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			return wrong(value, "anchors and aliases are not supported")
		}
		if seen[key.Value] {
			return wrong(key, "%s has the field %q twice", what, key.Value)
		}
		seen[key.Value] = true
		known, err := take(key.Value, value)
		if err != nil {
			return err
		}
		if !known {
			return wrong(key, "%s has no field %q", what, key.Value)
		}
	}
	for _, field := range needed {
		if !seen[field] {
			return wrong(n, "%s has no %s", what, field)
		}
	}
	return nil
}
