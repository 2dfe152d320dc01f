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

// FindLists finds the lists in the messages of the runs. Protobuf's text format
// writes a list of one element like a plain value, so a field that is a list in any
// message of an op is rewritten as a list in all of them.
func (c *Corpus) FindLists(runs []*Recording) {
	c.lists = map[listOf]bool{}
	forms := formsOf(runs)
	for _, f := range forms {
		for _, p := range c.Shapes.Paths[f.shape] {
			for _, step := range c.Paths.Lists[p] {
				_, plain := indexed(step.Prefix, func(string) bool { return false })
				c.lists[listOf{f.side, plain}] = true
			}
		}
	}
	c.writeLists(runs, forms)
}

// WriteLists rewrites the fields that FindLists found to be lists.
func (c *Corpus) WriteLists(runs []*Recording) { c.writeLists(runs, formsOf(runs)) }

func (c *Corpus) writeLists(runs []*Recording, forms []form) {
	to := map[form]intern.ShapeID{}
	for _, f := range forms {
		c.Shapes.Begin()
		for _, p := range c.Shapes.Paths[f.shape] {
			text, _ := indexed(c.Paths.Text[p], func(path string) bool { return c.lists[listOf{f.side, path}] })
			c.Shapes.Push(c.Paths.ID(text, c.Paths.Kind[p]))
		}
		if shape := c.Shapes.End(); shape != f.shape {
			to[f] = shape
		}
	}
	if len(to) == 0 {
		return
	}
	for _, r := range runs {
		for i := range r.Calls {
			for _, part := range []Part{Request, Response} {
				m := r.Calls[i].Message(part)
				if shape, other := to[form{side{r.Calls[i].Op, part}, m.Shape}]; other {
					m.Shape = shape
				}
			}
		}
	}
}

// A form is a shape that messages on one side of an op have.
type form struct {
	side
	shape intern.ShapeID
}

// formsOf lists the forms of all messages in the order of their first message.
func formsOf(runs []*Recording) []form {
	var out []form
	seen := map[form]bool{}
	for _, r := range runs {
		for i := range r.Calls {
			for _, part := range []Part{Request, Response} {
				f := form{side{r.Calls[i].Op, part}, r.Calls[i].Message(part).Shape}
				if !seen[f] {
					seen[f] = true
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// indexed adds the index 0 behind every name in a path that is a list and has no
// index. It also gives the path without any index.
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
