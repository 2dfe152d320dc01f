package mine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
)

// A script is a random program whose counts and arguments are known. It is played at
// five scales, and what is mined must predict the sixth.
type script struct {
	types []scriptType
}

type scriptType struct {
	name  string
	nodes func(n int) int
	steps []scriptStep
}

type scriptStep struct {
	method string
	arg    string // const, count, node, flow or session
	from   string // the method a flow comes from
	times  func(n int) int
	body   []scriptStep
}

var scriptCounts = map[string]func(n int) int{
	"2":          func(int) int { return 2 },
	"n":          func(n int) int { return n },
	"2n+1":       func(n int) int { return 2*n + 1 },
	"n-1":        func(n int) int { return n - 1 },
	"min(5,n)":   func(n int) int { return min(5, n) },
	"floor(n/2)": func(n int) int { return n / 2 },
	"n(n-1)":     func(n int) int { return n * (n - 1) },
	"ceil(n/4)":  func(n int) int { return int(math.Ceil(float64(n) / 4)) },
}

func drawScript(t *rapid.T) script {
	var s script
	counts := []string{"2", "n", "2n+1", "n-1", "min(5,n)", "floor(n/2)", "n(n-1)", "ceil(n/4)"}
	for k := range rapid.IntRange(1, 2).Draw(t, "types") {
		nodes := rapid.SampledFrom([]string{"n", "floor(n/2)"}).Draw(t, "nodes")
		ty := scriptType{name: fmt.Sprintf("%c", 'p'+k), nodes: scriptCounts[nodes]}
		next := 0
		var steps func(depth int) []scriptStep
		steps = func(depth int) []scriptStep {
			var out []scriptStep
			last := ""
			for i := range rapid.IntRange(1, 3).Draw(t, "steps") {
				// A loop that contains nothing but a loop looks like one loop.
				if depth < 2 && (depth == 0 || i > 0) && rapid.IntRange(0, 2).Draw(t, "loop") == 0 {
					count := rapid.SampledFrom(counts).Draw(t, "count")
					if depth == 1 { // keep the number of calls small
						count = rapid.SampledFrom([]string{"2", "min(5,n)"}).Draw(t, "inner")
					}
					out = append(out, scriptStep{times: scriptCounts[count], body: steps(depth + 1)})
					continue
				}
				next++
				st := scriptStep{method: fmt.Sprintf("%s%c", ty.name, 'a'+next), arg: rapid.SampledFrom([]string{"const", "count", "node", "flow"}).Draw(t, "arg")}
				if st.arg == "flow" {
					if st.from = last; last == "" {
						st.arg = "const"
					}
				}
				last = st.method
				out = append(out, st)
			}
			return out
		}
		ty.steps = steps(0)
		s.types = append(s.types, ty)
	}
	return s
}

// run plays the script at a scale.
func (s script) run(c *corpus.Corpus, n int, chance *rand.Rand) *corpus.Recording {
	r := c.Begin(fmt.Sprintf("n%03d", n))
	now := int64(1e18)
	for _, ty := range s.types {
		for rank := range ty.nodes(n) {
			replies, made := map[string]string{}, map[string]int{}
			var play func(steps []scriptStep)
			play = func(steps []scriptStep) {
				for _, st := range steps {
					if st.body != nil {
						for range st.times(n) {
							play(st.body)
						}
						continue
					}
					now += int64(1e6 * (1 + chance.Float64()))
					id := fmt.Sprint(chance.Int64N(1e12))
					values := map[string]trace.Leaf{
						"const": {Path: "a", Kind: trace.Int, Value: "420"},
						"count": {Path: "a", Kind: trace.String, Value: fmt.Sprintf("/in/%s-%05d", st.method, made[st.method])},
						"node":  {Path: "a", Kind: trace.String, Value: fmt.Sprintf("host-%d", rank+1)},
						"flow":  {Path: "a", Kind: trace.Int, Value: replies[st.from]},
					}
					r.Add(&trace.Call{Scale: n, Start: now, End: now + 1e5, Sender: fmt.Sprintf("%s-%d", ty.name, rank), Target: "t", Method: st.method,
						Request: []trace.Leaf{values[st.arg]}, Response: []trace.Leaf{{Path: "id", Kind: trace.Int, Value: id}}})
					replies[st.method] = id
					made[st.method]++
				}
			}
			play(ty.steps)
		}
	}
	return r
}

// TestRandomPrograms: what is learned at five scales predicts the sixth, or
// the count that is not certain is listed as ambiguous.
func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScript(t)
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		c := corpus.New()
		for _, n := range []int{3, 4, 6, 8, 12} {
			c.Learn(s.run(c, n, chance))
		}
		m, err := Learn(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		report := m.Report()
		check := m.Check(s.run(c, 15, chance))
		if report.Arguments.Unknown > 0 {
			t.Fatalf("unknown: %+v", report.Unknown)
		}
		if check.ArgumentsMatch != 1 {
			t.Fatalf("arguments %.3f: %+v", check.ArgumentsMatch, check.ByType)
		}
		for _, row := range check.ByType {
			if row.Nature != "logical" {
				t.Fatalf("%s is called by a program, not by %s", row.Method, row.Nature)
			}
		}
		if len(report.Ambiguous) == 0 && (!check.Exact() || check.SequenceMatch < 1) {
			t.Fatalf("sequence %.3f: %+v", check.SequenceMatch, check.ByType)
		}
	})
}
