// Package mapping reads a file that is one YAML mapping and names the line of
// every mistake: what is no YAML, a second document, a field that is not known,
// comes twice or is missing.
package mapping

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
)

// Document is the only document of a file; nil when there is none.
func Document(file string, text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(file, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, input.Linef(file, second.Line, "a second document; a file holds one")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(file, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// syntaxError takes the line out of the parser's message.
func syntaxError(file string, err error) error {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		line, _ = strconv.Atoi(msg[m[2]:m[3]])
		msg = msg[:m[0]] + msg[m[1]:]
	}
	return input.Linef(file, line, "not YAML: %s", msg)
}

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
