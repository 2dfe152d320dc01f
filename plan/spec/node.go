package spec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"gleaner/input"
)

// Limits of a document. A specification is written by hand; anything beyond these
// limits is a mistake or an attack, and is refused before it takes time or memory.
const (
	MaxSize     = 1 << 20 // bytes
	maxDepth    = 12
	maxElements = 200 // datasets, tasks and so on of a document
)

// A node is an element of a document, of XML or YAML.
type node struct {
	name     string
	line     int
	attrs    []attr
	children []*node
	taken    map[string]bool // attributes that were read
}

type attr struct {
	name, value string
	line        int
}

// plainName is a name without the prefix of names that are not in the paper.
func plainName(s string) string { return strings.TrimPrefix(s, "x-") }

// parse reads a document of XML or YAML into its outermost elements.
func parse(file string, data []byte) ([]*node, error) {
	if len(data) > MaxSize {
		return nil, input.Errorf(file, "%d bytes; a specification has at most %d", len(data), MaxSize)
	}
	if strings.HasSuffix(file, ".yaml") || strings.HasSuffix(file, ".yml") {
		return parseYAML(file, data)
	}
	if start := bytes.TrimLeft(data, " \t\r\n\ufeff"); len(start) > 0 && start[0] != '<' {
		return parseYAML(file, data)
	}
	return parseXML(file, data)
}

func parseXML(file string, data []byte) ([]*node, error) {
	dec := xml.NewDecoder(bytes.NewReader(data))
	lines := newLines(data)
	root := &node{}
	stack := []*node{root}
	for {
		start := dec.InputOffset()
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return root.children, nil
		}
		at := lines.of(int(start))
		if err != nil {
			var syntax *xml.SyntaxError
			if errors.As(err, &syntax) {
				return nil, input.Linef(file, syntax.Line, "not XML: %s", syntax.Msg)
			}
			return nil, input.Linef(file, at, "not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if len(stack) > maxDepth {
				return nil, input.Linef(file, at, "elements nested more than %d deep", maxDepth)
			}
			n := &node{name: plainName(token.Name.Local), line: at}
			text := data[start:dec.InputOffset()]
			for _, a := range token.Attr {
				n.attrs = append(n.attrs, attr{plainName(a.Name.Local), a.Value, at + lineWithin(text, a.Name.Local)})
			}
			top := stack[len(stack)-1]
			top.children = append(top.children, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if word := strings.TrimSpace(strings.TrimPrefix(string(token), "\ufeff")); word != "" {
				return nil, input.Linef(file, at, "text %q between elements; write everything as attributes", shorten(word))
			}
		case xml.Directive:
			return nil, input.Linef(file, at, "document types and entities are not read")
		}
	}
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 30 {
		return string(r[:30]) + "…"
	}
	return s
}

// lineWithin counts the lines from the start of a tag to one of its attributes.
func lineWithin(tag []byte, name string) int {
	for from := 0; ; {
		i := bytes.Index(tag[from:], []byte(name))
		if i < 0 {
			return 0
		}
		i += from
		rest := bytes.TrimLeft(tag[i+len(name):], " \t\r\n")
		spaced := i > 0 && strings.IndexByte(" \t\r\n", tag[i-1]) >= 0
		if spaced && len(rest) > 0 && rest[0] == '=' {
			return bytes.Count(tag[:i], []byte("\n"))
		}
		from = i + len(name)
	}
}

// lines finds the line of an offset; offsets must be in ascending order.
type lines struct {
	data     []byte
	at, line int
}

func newLines(data []byte) *lines { return &lines{data: data, line: 1} }

func (l *lines) of(offset int) int {
	l.line += bytes.Count(l.data[l.at:offset], []byte("\n"))
	l.at = offset
	return l.line
}

// describe names a node for a message: task "worker", or just sla.
func (n *node) describe() string {
	for _, a := range n.attrs {
		if a.name == "name" {
			return fmt.Sprintf("%s %q", n.name, a.value)
		}
	}
	return n.name
}
