package trace

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Flatten gives the leaves of a JSON document.
func Flatten(document string) ([]Leaf, error) {
	var p scanner
	p.reset(document)
	out, err := p.leaves(nil)
	if err == nil {
		err = p.end()
	}
	return out, err
}

// maxIndex is the longest list that Document makes.
const maxIndex = 1 << 20

// Document makes a JSON document of leaves, the reverse of Flatten. Empty objects and
// lists have no leaves, and are lost.
func Document(leaves []Leaf) ([]byte, error) {
	var root any
	for _, l := range leaves {
		v, err := l.jsonValue()
		if err == nil {
			root, err = place(root, splitPath(l.Path), v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	return json.Marshal(root)
}

func (l Leaf) jsonValue() (any, error) {
	switch l.Kind {
	case Bool:
		return strconv.ParseBool(l.Value)
	case Int, Float:
		return json.Number(l.Value), nil
	case Null:
		return nil, nil
	}
	return l.Value, nil
}

// splitPath gives the names (strings) and indices (ints) of a path in order.
func splitPath(path string) (out []any) {
	var name strings.Builder
	named := false
	flush := func() {
		if named {
			out = append(out, name.String())
			name.Reset()
		}
		named = false
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '\\':
			if i++; i < len(path) {
				name.WriteByte(path[i])
			}
			named = true
		case '.':
			named = named || i == 0
			flush()
			named = true // an empty name is a name
		case '[':
			end := strings.IndexByte(path[i:], ']')
			n, err := strconv.Atoi(path[i+1 : i+max(end, 1)])
			if err != nil || end < 0 {
				name.WriteByte(c)
				named = true
				continue
			}
			flush()
			out = append(out, n)
			i += end
		default:
			name.WriteByte(c)
			named = true
		}
	}
	flush()
	return out
}

// place puts a value into a document, which it returns.
func place(in any, path []any, v any) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	switch key := path[0].(type) {
	case string:
		if in == nil {
			in = map[string]any{}
		}
		object, ok := in.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%q is a member of what is no object", key)
		}
		below, err := place(object[key], path[1:], v)
		object[key] = below
		return object, err
	case int:
		list, ok := in.([]any)
		if in != nil && !ok || key > maxIndex {
			return nil, fmt.Errorf("[%d] is an element of what is no list", key)
		}
		for len(list) <= key {
			list = append(list, nil)
		}
		below, err := place(list[key], path[1:], v)
		list[key] = below
		return list, err
	}
	return nil, nil
}
