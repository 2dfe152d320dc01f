package value

import (
	"strconv"
	"strings"
)

// A path leads through lists by their indices, "a[2].b[0].c"; a bracket that
// belongs to a name is escaped.

// eachIndex visits the indices of a path, outermost first: where the text
// between the brackets starts and ends.
func eachIndex(path string, visit func(level, start, end int) bool) {
	level := 0
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '[':
			end := strings.IndexByte(path[i:], ']')
			if end < 0 || !visit(level, i+1, i+end) {
				return
			}
			level++
			i += end
		}
	}
}

// At is a path with the index at one level changed.
func At(path string, level, index int) string {
	out := path
	eachIndex(path, func(l, start, end int) bool {
		if l == level {
			out = path[:start] + strconv.Itoa(index) + path[end:]
		}
		return l < level
	})
	return out
}

// Index is the index of a path at a level; -1 when it has none there.
func Index(path string, level int) int {
	out := -1
	eachIndex(path, func(l, start, end int) bool {
		if l == level {
			if n, err := strconv.Atoi(path[start:end]); err == nil {
				out = n
			}
		}
		return l < level
	})
	return out
}

// Class is a path without its indices: the same for all elements of a list.
func Class(path string) string {
	if strings.IndexByte(path, '[') < 0 {
		return path
	}
	var out strings.Builder
	last := 0
	eachIndex(path, func(_, start, end int) bool {
		out.WriteString(path[last:start])
		last = end
		return true
	})
	out.WriteString(path[last:])
	return out.String()
}
