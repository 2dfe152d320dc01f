package harvest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// classStates draws a few classes, some full, some with room.
func classStates(t *rapid.T) []ClassState {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ClassState {
		servers := rapid.IntRange(0, 50).Draw(t, "servers")
		size := cluster.Resources{CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
		reserve := PaperReserve.Of(size)
		mean := rapid.Float64Range(0, 1).Draw(t, "mean")
		return ClassState{
			Pattern: rapid.SampledFrom(append([]cluster.Pattern{cluster.UnknownPattern}, cluster.Patterns[:]...)).Draw(t, "pattern"),
			Mean:    mean, Peak: rapid.Float64Range(mean, 1).Draw(t, "peak"),
			Size: size.Times(servers), Reserve: reserve.Times(servers),
			Room: cluster.Resources{CPU: cluster.Core, Memory: 2 * cluster.GB}.Times(rapid.IntRange(0, 8*servers).Draw(t, "room")),
			Held: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}.Times(rapid.IntRange(0, 4*servers).Draw(t, "held")),
		}
	}), 1, 8).Draw(t, "classes")
}

// slowHeadroom is §4.1's sentence in shares of the class, written out.
func slowHeadroom(c ClassState, kind Length) (cpu, memory float64) {
	if c.Size.CPU == 0 {
		return 0, 0
	}
	size := float64(c.Size.CPU)
	current := 1 - (float64(c.Room.CPU)+float64(c.Reserve.CPU))/size // what primaries use now
	use := map[Length]float64{Short: current, Medium: max(c.Mean, current), Long: max(c.Peak, current)}[kind]
	cpu = (1-use)*size - float64(c.Reserve.CPU) - float64(c.Held.CPU) - float64(c.Promised.CPU)
	memory = float64(c.Room.Memory - c.Held.Memory - c.Promised.Memory)
	if cpu <= 0 || memory < 0 {
		return 0, 0
	}
	return cpu, memory
}

func TestHeadroomIsTheSentenceOfThePaper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, c := range classStates(t) {
			for kind := Short; kind <= Long; kind++ {
				got := c.Headroom(kind)
				cpu, memory := slowHeadroom(c, kind)
				if math.Abs(float64(got.CPU)-cpu) > 2 || cpu > 2 && math.Abs(float64(got.Memory)-memory) > 2 {
					t.Fatalf("%s headroom %v, want %v and %v", kind, got, cpu, memory)
				}
			}
		}
	})
}

// TestSelectAgreesWithItsTwin checks every pick against the lines of Algorithm 1,
// read as conditions on the outcome.
func TestSelectAgreesWithItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := classStates(t)
		kind := Length(rapid.IntRange(0, 2).Draw(t, "kind"))
		need := cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}.Times(rapid.IntRange(1, 900).Draw(t, "need"))
		picked := Select(kind, need, classes, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), nil)

		var alone []int
		var all, got cluster.Resources
		for i := range classes {
			room := classes[i].Headroom(kind)
			all = all.Add(room)
			if need.Fits(room) {
				alone = append(alone, i)
			}
		}
		for _, k := range picked {
			got = got.Add(classes[k].Headroom(kind))
		}
		switch {
		case len(alone) > 0: // lines 9 to 11
			if len(picked) != 1 || !slices.Contains(alone, picked[0]) {
				t.Fatalf("picked %v of those that fit alone, %v", picked, alone)
			}
		case need.Fits(all): // lines 12 to 14
			if len(picked) < 2 || !need.Fits(got) || len(slices.Compact(slices.Clone(picked))) != len(picked) {
				t.Fatalf("picked %v with room %v together for %v", picked, got, need)
			}
		default: // lines 15 to 17
			if len(picked) != 0 {
				t.Fatalf("picked %v though %v does not fit in %v", picked, need, all)
			}
		}
	})
}

// within reports how many standard deviations a count is off its expectation.
func within(count, draws int, p float64) float64 {
	return math.Abs(float64(count)-p*float64(draws)) / math.Sqrt(float64(draws)*p*(1-p)+1e-9)
}

func TestClassesArePickedInProportionToWeightedRoom(t *testing.T) {
	classes := make([]ClassState, 4)
	for i := range classes {
		classes[i] = ClassState{Pattern: cluster.Pattern(i), Size: cluster.Resources{CPU: 1200 * cluster.Core, Memory: cluster.GB},
			Room: cluster.Resources{CPU: cluster.MilliCPU(100*(i+1)) * cluster.Core, Memory: cluster.GB}}
	}
	const draws = 200_000
	r := rand.New(rand.NewPCG(7, 7))
	for kind := Short; kind <= Long; kind++ {
		total, counts := 0.0, make([]int, len(classes))
		for i := range classes {
			total += float64(classes[i].Headroom(kind).CPU) * weights[kind][classes[i].Pattern]
		}
		for range draws {
			counts[Select(kind, cluster.Resources{CPU: cluster.Core}, classes, r, nil)[0]]++
		}
		for i := range classes {
			p := float64(classes[i].Headroom(kind).CPU) * weights[kind][classes[i].Pattern] / total
			if off := within(counts[i], draws, p); off > 4.5 {
				t.Errorf("%s: class %d picked %d times of %d, expected %.0f (%.1f sigma)", kind, i, counts[i], draws, p*draws, off)
			}
		}
	}
}

func TestRankingOfThePaper(t *testing.T) {
	for kind, order := range map[Length][3]cluster.Pattern{
		Long:   {cluster.Constant, cluster.Periodic, cluster.Unpredictable},
		Medium: {cluster.Periodic, cluster.Constant, cluster.Unpredictable},
		Short:  {cluster.Unpredictable, cluster.Periodic, cluster.Constant},
	} {
		w := weights[kind]
		if !(w[order[0]] > w[order[1]] && w[order[1]] > w[order[2]]) {
			t.Errorf("%s: weights %v do not rank %v", kind, w, order)
		}
	}
}

func TestServersAreChosenInProportionToWeight(t *testing.T) {
	c := New(Options{Policy: osdi16{}, Reserve: PaperReserve, Rand: rand.New(rand.NewPCG(1, 1))})
	var use []cluster.Use
	for i := range 8 {
		id := cluster.ServerID(fmt.Sprint("s", i))
		c.Step(cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: id, CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}})
		use = append(use, cluster.Use{On: id, Primary: cluster.Resources{CPU: cluster.MilliCPU(i) * cluster.Core}})
	}
	c.Step(cluster.Event{Kind: cluster.UseReported, Use: use})
	j := &job{anywhere: true}
	// Six cores: only the servers with 6, 7 and 8 left can take it. Draws of the
	// others are repeated or, if they are too many, replaced by fromAll.
	for _, cores := range []cluster.MilliCPU{1, 6} {
		const draws = 100_000
		counts, total := make([]int, 8), 0.0
		for range draws {
			counts[c.choose(j, &cluster.Stage{Request: cluster.Resources{CPU: cores * cluster.Core}})]++
		}
		for i := range 8 {
			if room := 8 - i; room >= int(cores) {
				total += float64(room)
			}
		}
		for i, n := range counts {
			p := 0.0
			if room := 8 - i; room >= int(cores) {
				p = float64(room) / total
			}
			if off := within(n, draws, p); off > 4.5 {
				t.Errorf("%d cores: server with %d left chosen %d times of %d, expected %.0f", cores, 8-i, n, draws, p*draws)
			}
		}
	}
}

func TestTreeAgreesWithALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 40).Draw(t, "weights")
		tr := newTree(slices.Clone(weight))
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			i := rapid.IntRange(0, len(weight)-1).Draw(t, "place")
			weight[i] = rapid.Int64Range(0, 5).Draw(t, "weight")
			tr.set(i, weight[i])
		}
		point := int64(0)
		for i, w := range weight {
			for range w {
				if got := tr.find(point); got != i {
					t.Fatalf("find(%d) = %d, want %d in %v", point, got, i, weight)
				}
				point++
			}
		}
		if tr.total != point {
			t.Fatalf("total %d, want %d", tr.total, point)
		}
	})
}

func BenchmarkSelect(b *testing.B) {
	classes := make([]ClassState, 23)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range classes {
		classes[i] = ClassState{Pattern: cluster.Patterns[i%3], Mean: 0.3, Peak: 0.5, Size: cluster.Resources{CPU: 2400 * cluster.Core, Memory: 6400 * cluster.GB},
			Reserve: cluster.Resources{CPU: 800 * cluster.Core}, Room: cluster.Resources{CPU: cluster.MilliCPU(r.IntN(1600)) * cluster.Core, Memory: 4000 * cluster.GB}}
	}
	for name, cores := range map[string]cluster.MilliCPU{"one": 200, "several": 5000, "none": 500_000} {
		b.Run(fmt.Sprintf("23classes/%s", name), func(b *testing.B) {
			var picked []int
			need := cluster.Resources{CPU: cores * cluster.Core, Memory: cluster.GB}
			for b.Loop() {
				picked = Select(Medium, need, classes, r, picked[:0])
			}
		})
	}
}
