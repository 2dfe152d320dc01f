// Package mapping reads a file that is one YAML mapping and reports every mistake
// with its line: bad YAML, a second document, a field that is unknown, given twice
// or missing.
package mapping

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
)

// Document is the only document of a file; nil if there is none.
func Document(file string, text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, Mistake(file, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, input.Linef(file, second.Line, "a second document; a file holds one")
	} else if !errors.Is(err, io.EOF) {
		return nil, Mistake(file, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

var (
	yamlLine  = regexp.MustCompile(`line (\d+): `)
	wrongKind = regexp.MustCompile("^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.+)$")
	noField   = regexp.MustCompile(`^field (.*) not found in type .+$`)
)

// Mistake turns an error of the YAML library into a mistake in our words, with its
// line. Of several it reports the first.
func Mistake(file string, err error) error {
	var kinds *yaml.TypeError
	if errors.As(err, &kinds) && len(kinds.Errors) > 0 {
		err = errors.New(kinds.Errors[0])
	}
	msg, syntax := strings.CutPrefix(err.Error(), "yaml: ")
	line := 0
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		line, _ = strconv.Atoi(msg[m[2]:m[3]])
		msg = msg[:m[0]] + msg[m[1]:]
	}
	if m := wrongKind.FindStringSubmatch(msg); m != nil {
		msg = wants(m[1], m[2], m[3])
	} else if m := noField.FindStringSubmatch(msg); m != nil {
		msg = fmt.Sprintf("no field %q is known here", m[1])
	} else if syntax {
		msg = "not YAML: " + msg
	}
	return input.Linef(file, line, "%s", msg)
}

// wants says which kind of value is expected instead of the one found.
func wants(tag, value, kind string) string {
	found := map[string]string{"seq": "a list", "map": "a list of fields with values"}[tag]
	if found == "" {
		found = strconv.Quote(value)
	}
	want := "a list of fields with values"
	switch {
	case strings.HasPrefix(kind, "[]"):
		want = "a list"
	case kind == "string":
		want = "a text"
	case kind == "bool":
		want = "true or false"
	case strings.HasPrefix(kind, "float"):
		want = "a number"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		want = "a whole number"
	}
	return found + " stands where " + want + " belongs"
}

// A File is the name of a file that is being read, for errors.
type File string

// Wrong is a mistake on the line of n.
func (f File) Wrong(n *yaml.Node, format string, args ...any) error {
	return input.Linef(string(f), n.Line, format, args...)
}

// Fields calls take for every field of a mapping. An unknown field, one that is
// given twice, and a needed one that is missing are mistakes. Errors call the
// mapping what, such as "the job".
func (f File) Fields(n *yaml.Node, what string, needed []string, take func(field string, value *yaml.Node) (known bool, err error)) error {
	if n.Kind != yaml.MappingNode {
		return f.Wrong(n, "%s must be a list of fields with values", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			return f.Wrong(value, "anchors and aliases are not supported")
		}
		if seen[key.Value] {
			return f.Wrong(key, "%s has the field %q twice", what, key.Value)
		}
		seen[key.Value] = true
		known, err := take(key.Value, value)
		if err != nil {
			return err
		}
		if !known {
			return f.Wrong(key, "%s has no field %q", what, key.Value)
		}
	}
	for _, field := range needed {
		if !seen[field] {
			return f.Wrong(n, "%s has no %s", what, field)
		}
	}
	return nil
}

// List returns the items of a list.
func (f File) List(n *yaml.Node, what string) ([]*yaml.Node, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, f.Wrong(n, "%s must be a list", what)
	}
	return n.Content, nil
}

// Text reads a text.
func (f File) Text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", f.Wrong(n, "%s must be a text", what)
	}
	if strings.ContainsRune(n.Value, 0) {
		return "", f.Wrong(n, "%s must not hold a zero byte", what)
	}
	return n.Value, nil
}

// Filled reads a text that is not empty.
func (f File) Filled(n *yaml.Node, what string) (string, error) {
	text, err := f.Text(n, what)
	if err == nil && text == "" {
		err = f.Wrong(n, "%s must not be empty", what)
	}
	return text, err
}

// Texts reads a list of texts.
func (f File) Texts(n *yaml.Node, what string) ([]string, error) {
	items, err := f.List(n, what)
	all := make([]string, len(items))
	for i := 0; i < len(items) && err == nil; i++ {
		all[i], err = f.Text(items[i], "each of "+what)
	}
	return all, err
}

// Count reads a whole number.
func (f File) Count(n *yaml.Node, what string, least, most int) (int, error) {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return 0, f.Wrong(n, "%s is %q, not a whole number", what, n.Value)
	}
	if v < least || v > most {
		return 0, f.Wrong(n, "%s is %d, not between %d and %d", what, v, least, most)
	}
	return v, nil
}

// Number reads a number.
func (f File) Number(n *yaml.Node, what string, least, most float64) (float64, error) {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || !(v >= least && v <= most) {
		return 0, f.Wrong(n, "%s is %q, not a number between %g and %g", what, n.Value, least, most)
	}
	return v, nil
}
