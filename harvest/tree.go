package harvest

import "math/bits"

// A tree holds a weight for each of n places (a Fenwick tree). It finds the place
// at a point of the line on which all weights are laid end to end, so that
// drawing a place with probability proportional to its weight, and changing a
// weight, both take O(log n).

type tree struct {
	weight []int64
	sums   []int64 // 1-based: sums[i] covers the lowbit(i) places up to i
	total  int64
}

func newTree(weights []int64) tree {
	t := tree{weight: weights, sums: make([]int64, len(weights)+1)}
	for i, w := range weights {
		t.total += w
		t.sums[i+1] += w
		if up := i + 1 + lowbit(i+1); up < len(t.sums) {
			t.sums[up] += t.sums[i+1]
		}
	}
	return t
}

func lowbit(i int) int { return i & -i }

func (t *tree) set(place int, w int64) {
	d := w - t.weight[place]
	if d == 0 {
		return
	}
	t.weight[place] = w
	t.total += d
	for i := place + 1; i < len(t.sums); i += lowbit(i) {
		t.sums[i] += d
	}
}

// find returns the place that covers point, 0 <= point < total.
func (t *tree) find(point int64) int {
	at := 0
	for step := 1 << (bits.Len(uint(len(t.weight))) - 1); step > 0; step >>= 1 {
		if next := at + step; next < len(t.sums) && t.sums[next] <= point {
			at, point = next, point-t.sums[next]
		}
	}
	return at
}
