package cluster

import (
	"cmp"
	"slices"
)

// Indices are the numbers of some tasks of a stage, as spans in ascending
// order that do not touch: a million tasks in a row are one span.
type Indices []Span

// A Span is the tasks from First to Last, both included.
type Span struct {
	First int32 `json:"first"`
	Last  int32 `json:"last"`
}

// IndicesOf sorts numbers, which may contain duplicates, into spans.
func IndicesOf(numbers []int32) Indices {
	slices.Sort(numbers)
	var x Indices
	for _, n := range numbers {
		if last := len(x) - 1; last >= 0 && n <= x[last].Last+1 {
			x[last].Last = n
		} else {
			x = append(x, Span{n, n})
		}
	}
	return x
}

// Len is how many tasks there are.
func (x Indices) Len() int {
	n := 0
	for _, s := range x {
		n += int(s.Last-s.First) + 1
	}
	return n
}

// End is one more than the last number.
func (x Indices) End() int32 {
	if len(x) == 0 {
		return 0
	}
	return x[len(x)-1].Last + 1
}

// Has reports whether task n is among them.
func (x Indices) Has(n int32) bool {
	i, found := slices.BinarySearchFunc(x, n, func(s Span, n int32) int { return cmp.Compare(s.First, n) })
	return found || i > 0 && n <= x[i-1].Last
}

// ordered reports whether the spans ascend and do not touch.
func (x Indices) ordered() bool {
	next := int32(0)
	for _, s := range x {
		if s.First < next || s.Last < s.First || s.Last >= MaxTasks {
			return false
		}
		next = s.Last + 1
	}
	return true
}

// With is x and task n.
func (x Indices) With(n int32) Indices {
	if x.Has(n) {
		return x
	}
	i, _ := slices.BinarySearchFunc(x, n, func(s Span, n int32) int { return cmp.Compare(s.First, n) })
	x = slices.Insert(x, i, Span{n, n})
	if i+1 < len(x) && x[i+1].First == n+1 {
		x[i].Last = x[i+1].Last
		x = slices.Delete(x, i+1, i+2)
	}
	if i > 0 && x[i-1].Last == n-1 {
		x[i-1].Last = x[i].Last
		x = slices.Delete(x, i, i+1)
	}
	return x
}
