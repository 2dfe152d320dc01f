package hadooprpc

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"gleaner/trace"
)

// Complete adds to a call of Hadoop's own log what the log lacks: the protocol of the
// method, and which fields are lists of one element. A call that no protocol has stays as it is.
func (s *Schema) Complete(c *trace.Call) {
	if !strings.Contains(c.Method, ".") {
		c.Method = s.full(c)
	}
	m, known := s.methods[c.Method]
	if !known {
		return
	}
	markLists(m.in.kind, c.Request)
	markLists(m.out.kind, c.Response)
}

// full is the name of a method with its protocol: of several, the first whose request has
// all fields of the call.
func (s *Schema) full(c *trace.Call) string {
	var names []string
	for name := range s.methods {
		if _, method, _ := strings.Cut(name, "."); method == c.Method {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if markLists(s.methods[name].in.kind, slices.Clone(c.Request)) {
			return name
		}
	}
	return c.Method
}

// markLists adds the index 0 to lists that have no index. It reports whether the message
// has all fields.
func markLists(kind protoreflect.MessageDescriptor, leaves []trace.Leaf) bool {
	all := true
	for i := range leaves {
		path, ok := markPath(kind, leaves[i].Path)
		leaves[i].Path, all = path, all && ok
	}
	return all
}

func markPath(kind protoreflect.MessageDescriptor, path string) (string, bool) {
	name, rest, deeper := strings.Cut(path, ".")
	plain, _, indexed := strings.Cut(name, "[")
	f := kind.Fields().ByName(protoreflect.Name(plain))
	if f == nil {
		return path, false
	}
	if f.IsList() && !indexed {
		name += "[0]"
	}
	if !deeper {
		return name, true
	}
	if f.Message() == nil {
		return name + "." + rest, false
	}
	rest, ok := markPath(f.Message(), rest)
	return name + "." + rest, ok
}
