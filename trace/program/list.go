package program

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A List is the length of a list in a request that varies: one formula, or several
// lengths of which each is equally likely.
type List struct {
	Path    string // up to the bracket
	Lengths []Formula
}

// Lists are the lists of a call whose length varies, in order.
type Lists []List

// MarshalYAML writes lists as a mapping in their order.
func (l Lists) MarshalYAML() (any, error) {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, list := range l {
		var key, value yaml.Node
		if err := key.Encode(list.Path); err != nil {
			return nil, err
		}
		if err := value.Encode(list.Lengths); err != nil {
			return nil, err
		}
		value.Style = yaml.FlowStyle
		out.Content = append(out.Content, &key, &value)
	}
	return out, nil
}

// UnmarshalYAML reads lists in their order.
func (l *Lists) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: lists are a mapping from path to lengths", n.Line)
	}
	*l = nil
	for i := 0; i < len(n.Content); i += 2 {
		list := List{Path: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&list.Lengths); err != nil {
			return err
		}
		if len(list.Lengths) == 0 {
			return fmt.Errorf("line %d: the list %s has no length", n.Content[i+1].Line, list.Path)
		}
		*l = append(*l, list)
	}
	return nil
}

// Elements visits the arguments of a call with every element of every list whose length
// varies. item is the number of the element in the innermost list. length gives the
// length of a list; one that the program does not name has one element.
func (c *Call) Elements(length func(List) int, visit func(path string, item int, value Template)) {
	elements(c.Args, "", 0, c.Lists, length, visit)
}

func elements(args []Arg, done string, item int, lists Lists, length func(List) int, visit func(string, int, Template)) {
	for i := 0; i < len(args); {
		list, rest, inList := strings.Cut(args[i].Path, star)
		if !inList {
			visit(done+args[i].Path, item, args[i].Value)
			i++
			continue
		}
		same := i + 1 // arguments of the same list are visited element by element
		for same < len(args) && strings.HasPrefix(args[same].Path, list+star) {
			same++
		}
		inner := make([]Arg, same-i)
		for k, a := range args[i:same] {
			inner[k] = Arg{Path: a.Path[len(args[i].Path)-len(rest):], Value: a.Value}
		}
		var below Lists
		long := List{Path: list, Lengths: nil}
		for _, l := range lists {
			if l.Path == list {
				long = l
			} else if after, ok := strings.CutPrefix(l.Path, list+star); ok {
				below = append(below, List{after, l.Lengths})
			}
		}
		n := 1
		if long.Lengths != nil {
			n = length(long)
		}
		for k := range n {
			elements(inner, fmt.Sprintf("%s%s[%d]", done, list, k), k, below, length, visit)
		}
		i = same
	}
}

const star = "[*]"
