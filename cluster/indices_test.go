package cluster_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// Indices hold what a set would.
func TestIndices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.Int32Range(0, 40)).Draw(t, "numbers")
		set, end := map[int32]bool{}, int32(0)
		for _, n := range numbers {
			set[n], end = true, max(end, n+1)
		}
		var one cluster.Indices
		for _, n := range numbers {
			one = one.With(n)
		}
		x := cluster.IndicesOf(numbers)
		if !slices.Equal(one, x) {
			t.Fatalf("one by one %v, together %v", one, x)
		}
		if x.Len() != len(set) || x.End() != end {
			t.Fatalf("%v: %d up to %d, want %d up to %d", x, x.Len(), x.End(), len(set), end)
		}
		for n := int32(-1); n < 42; n++ {
			if x.Has(n) != set[n] {
				t.Fatalf("%v has %d: %v", x, n, x.Has(n))
			}
		}
		for i := range x {
			if i > 0 && x[i].First <= x[i-1].Last+1 {
				t.Fatalf("%v: spans touch", x)
			}
		}
	})
}

func TestAPastThatCannotBe(t *testing.T) {
	for _, x := range []cluster.Indices{{{First: -1, Last: 2}}, {{First: 3, Last: 2}}, {{First: 4, Last: 5}, {First: 5, Last: 6}}, {{First: 0, Last: cluster.MaxTasks}}} {
		ev := cluster.Event{Kind: cluster.Resumed, Past: []cluster.PastJob{{Job: &cluster.Job{ID: 7}, Stages: []cluster.PastStage{{Name: "map", Finished: x}}}}}
		if err := ev.Check(); err == nil || err.Error() != "the finished tasks of job-7/map are not in order" {
			t.Errorf("%v: %v", x, err)
		}
	}
	if err := (&cluster.Event{Kind: cluster.Resumed, Past: []cluster.PastJob{{}}}).Check(); err == nil {
		t.Error("a past without its job")
	}
}
