package corpus

import (
	"strings"

	"gleaner/trace/mine/intern"
)

// A listOf is a list in the requests or the replies of an op, by its path
// without indices.
type listOf struct {
	side
	path string
}

type side struct {
	op   OpID
	part Part
}

// FindLists notes what is a list in the messages of the runs. A form of messages
// that knows no lists, as protobuf's text, writes a list of one as if it were
// none, so what is a list in any message of an op is one in all of them.
func (c *Corpus) FindLists(runs []*Run) {
	c.lists = map[listOf]bool{}
	eachShape(runs, func(of side, shape intern.ShapeID) intern.ShapeID {
		for _, p := range c.Shapes.Paths[shape] {
			for _, step := range c.Paths.Lists[p] {
				_, plain := indexed(step.Prefix, func(string) bool { return false })
				c.lists[listOf{of, plain}] = true
			}
		}
		return shape
	})
}

// WriteLists writes lists of one as lists, where they are known to be.
func (c *Corpus) WriteLists(runs []*Run) {
	eachShape(runs, func(of side, shape intern.ShapeID) intern.ShapeID {
		paths := c.Shapes.Paths[shape]
		c.Shapes.Begin()
		for _, p := range paths {
			text, _ := indexed(c.Paths.Text[p], func(path string) bool { return c.lists[listOf{of, path}] })
			c.Shapes.Push(c.Paths.ID(text, c.Paths.Kind[p]))
		}
		return c.Shapes.End()
	})
}

// eachShape visits what shapes the messages of each op have, each once, and
// replaces them.
func eachShape(runs []*Run, visit func(of side, shape intern.ShapeID) intern.ShapeID) {
	type key struct {
		side
		shape intern.ShapeID
	}
	done := map[key]intern.ShapeID{}
	for _, r := range runs {
		for i := range r.Calls {
			for _, part := range []Part{Request, Response} {
				m := r.Calls[i].Message(part)
				k := key{side{r.Calls[i].Op, part}, m.Shape}
				to, ok := done[k]
				if !ok {
					to = visit(k.side, m.Shape)
					done[k] = to
				}
				m.Shape = to
			}
		}
	}
}

// indexed adds the index 0 to a path behind every name that is a list and has
// none, and gives the path without any index as well.
func indexed(path string, list func(plain string) bool) (with, without string) {
	var out, plain strings.Builder
	bracket := false
	name := func() {
		if !bracket && list(plain.String()) {
			out.WriteString("[0]")
		}
		bracket = false
	}
	for i := 0; i < len(path); i++ {
		switch end := strings.IndexByte(path[i:], ']'); {
		case path[i] == '[' && end > 0:
			out.WriteString(path[i : i+end+1])
			i += end
			bracket = true
			continue
		case path[i] == '.':
			name()
		case path[i] == '\\' && i+1 < len(path):
			out.WriteByte(path[i])
			plain.WriteByte(path[i])
			i++
		}
		out.WriteByte(path[i])
		plain.WriteByte(path[i])
	}
	name()
	return out.String(), plain.String()
}
