package harvest

import (
	"cmp"
	"slices"
)

// A line is a queue of waiting jobs, in the order they came in.
type line []*job

func (l line) place(number int) (int, bool) {
	return slices.BinarySearchFunc(l, number, func(j *job, n int) int { return cmp.Compare(j.number, n) })
}

func (l *line) add(j *job) {
	if i, in := l.place(j.number); !in {
		*l = slices.Insert(*l, i, j)
	}
}

func (l *line) remove(j *job) {
	if i, in := l.place(j.number); in {
		*l = slices.Delete(*l, i, i+1)
	}
}

// after is the first job that came in after the one with this number; nil if
// there is none.
func (l line) after(number int) *job {
	if len(l) == 0 || l[len(l)-1].number <= number {
		return nil
	}
	i, _ := l.place(number + 1)
	return l[i]
}
