package mine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
	"gleaner/trace/mine/order"
	"gleaner/trace/program"
)

// A tape records what a synthetic program does at one scale.
type tape struct {
	run    *corpus.Recording
	n      int
	now    int64
	chance *rand.Rand
}

func (t *tape) call(sender, method string, request, response []trace.Leaf) {
	t.now += int64(1e6 * (1 + 20*t.chance.Float64()))
	t.run.Add(&trace.Call{Scale: t.n, Start: t.now, End: t.now + 1e5, Sender: sender, Target: "server", Method: method, Request: request, Response: response})
}

func (t *tape) id() string { return strconv.FormatInt(t.chance.Int64N(1e12), 10) }

// taught mines a synthetic program at five scales, and checks it at a sixth.
func taught(t *testing.T, play func(*tape)) (*Model, *Report, *Check) {
	t.Helper()
	c := corpus.New()
	at := func(n int) *corpus.Recording {
		tp := &tape{run: c.Begin(fmt.Sprintf("n%03d", n)), n: n, now: 1e18, chance: rand.New(rand.NewPCG(uint64(n), 7))}
		play(tp)
		return tp.run
	}
	for _, n := range []int{3, 4, 6, 8, 12} {
		c.Learn(at(n))
	}
	m, err := Learn(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return m, m.Report(), m.Check(at(26))
}

// TestCountsKnown: each is recovered exactly, or named as ambiguous.
func TestCountsKnown(t *testing.T) {
	for name, f := range map[string]func(n int) int{
		"min(10, n)":      func(n int) int { return min(10, n) },
		"n(n-1)":          func(n int) int { return n * (n - 1) },
		"ceil(n/4)":       func(n int) int { return (n + 3) / 4 },
		"ceil(log2 n)":    func(n int) int { return int(math.Ceil(math.Log2(float64(n)))) },
		"ceil(sqrt n)":    func(n int) int { return int(math.Ceil(math.Sqrt(float64(n)))) },
		"5n+floor(n/2)+3": func(n int) int { return 5*n + n/2 + 3 },
		"max(0, 2n-10)":   func(n int) int { return max(0, 2*n-10) },
		"7":               func(int) int { return 7 },
	} {
		t.Run(name, func(t *testing.T) {
			_, report, check := taught(t, func(tp *tape) {
				tp.call("client", "begin", nil, nil)
				for i := range f(tp.n) {
					tp.call("client", "put", []trace.Leaf{minetest.Leaf("src", fmt.Sprintf(`"/in/%d"`, i))}, nil)
				}
				tp.call("client", "end", nil, nil)
			})
			exact := check.CallsExpected == check.CallsPredicted
			if !exact && len(report.Ambiguous) == 0 || !check.Exact() || len(report.Varying) > 0 {
				t.Errorf("%d calls, %d predicted; ambiguous %+v, varying %+v", check.CallsExpected, check.CallsPredicted, report.Ambiguous, report.Varying)
			}
			if check.ArgumentsMatch != 1 {
				t.Errorf("arguments %.3f", check.ArgumentsMatch)
			}
		})
	}
}

// TestJoinsKnown: a chief who waits for all workers waits for them in the program, and a
// clerk who comes when he likes waits for nobody, although workers are done before he reads
// in most runs.
func TestJoinsKnown(t *testing.T) {
	m, _, _ := taught(t, func(tp *tape) {
		tp.call("chief", "open", nil, nil)
		tp.call("clerk", "come", nil, nil)
		reads := tp.chance.IntN(20 * tp.n)
		for k := range 20 * tp.n {
			worker := fmt.Sprintf("worker-%d", k)
			tp.call(worker, "take", nil, nil)
			tp.call(worker, "done", nil, nil)
			if k == reads {
				tp.call("clerk", "read", nil, nil)
			}
		}
		tp.call("chief", "commit", nil, nil)
		tp.call("chief", "shut", nil, nil)
	})
	var got []string
	for c := range m.Program.EachCall() {
		for _, j := range c.Joins {
			got = append(got, fmt.Sprintf("%s after %s by %g", c.Name, j.After, j.Share))
		}
	}
	if len(got) != 1 || got[0] != "commit#1 after done#1 by 1" {
		t.Errorf("joins are %q", got)
	}
}

// TestAbsentTargets: beside a value from the reply of another target stands the same value
// from a call to the own target, and the value of the first run.
func TestAbsentTargets(t *testing.T) {
	c := corpus.New()
	for _, n := range []int{3, 4, 6, 8, 12} {
		r, now := c.Begin(fmt.Sprintf("n%03d", n)), int64(1e18)
		id := []trace.Leaf{minetest.Leaf("id", strconv.Itoa(70001+n*n*n*31))}
		call := func(sender, target, method string, request, response []trace.Leaf) {
			now += 10e6
			r.Add(&trace.Call{Scale: n, Start: now, End: now + 1e6, Sender: sender, Target: target, Method: method, Request: request, Response: response})
		}
		call("client", "master", "new", nil, id)
		call("client", "store", "put", id, nil)
		for k := range n {
			reader := fmt.Sprintf("reader-%d", k)
			call(reader, "master", "ask", nil, id)
			call(reader, "store", "get", id, nil)
		}
		c.Learn(r)
	}
	m, err := Learn(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for c := range m.Program.EachCall() {
		for _, a := range c.Args {
			got[c.Name] = a.Value.String()
		}
	}
	if put, get := got["put#1"], got["get#1"]; put != `={reply "new#1" "id" | like "70838"}` || get != `={reply "ask#1" "id" | request "put#1" "id" by anyone | like "70838"}` {
		t.Errorf("put %s\nget %s", put, get)
	}
}

// TestRandomInnerCounts: a loop with an inner loop of random length is still a loop, and
// the calls of the inner one are listed as varying.
func TestRandomInnerCounts(t *testing.T) {
	m, report, check := taught(t, func(tp *tape) {
		for i := range 4 * tp.n {
			tp.call("client", "open", []trace.Leaf{minetest.Leaf("src", fmt.Sprintf(`"/in/%d"`, i))}, nil)
			for range 1 + tp.chance.IntN(5) {
				tp.call("client", "read", nil, nil)
			}
			tp.call("client", "close", nil, nil)
		}
	})
	if len(report.Varying) != 1 || report.Varying[0].Method != "read" || !check.Exact() {
		t.Errorf("varying %+v, exact %v", report.Varying, check.Exact())
	}
	if steps := m.shapes[0].Steps; len(steps) != 1 || steps[0].Repeat.At(26) != 104 {
		t.Errorf("not one loop of 4*n: %v", m.Program.Types[0].Steps)
	}
}

// TestNoise: calls at random do not break the loop that they fall into.
func TestNoise(t *testing.T) {
	for _, share := range []float64{0.01, 0.05} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			m, report, check := taught(t, func(tp *tape) {
				noise := func() {
					if tp.chance.Float64() < share {
						tp.call("client", "gc", nil, nil)
					}
				}
				for i := range 20 * tp.n {
					file := minetest.Leaf("file", tp.id())
					tp.call("client", "create", []trace.Leaf{minetest.Leaf("src", fmt.Sprintf(`"/in/%d"`, i))}, []trace.Leaf{file})
					noise()
					tp.call("client", "write", []trace.Leaf{file}, nil)
					noise()
					tp.call("client", "close", []trace.Leaf{file}, nil)
					noise()
				}
			})
			if len(report.Varying) != 1 || report.Varying[0].Method != "gc" || !check.Exact() {
				t.Errorf("varying %+v, exact %v", report.Varying, check.Exact())
			}
			if check.SequenceMatch != 1 || check.ArgumentsMatch != 1 || len(m.shapes[0].Steps) != 1 {
				t.Errorf("sequence %.3f, arguments %.3f, %d steps", check.SequenceMatch, check.ArgumentsMatch, len(m.shapes[0].Steps))
			}
		})
	}
}

// TestRetries: a call that is repeated until its reply is the right one, at random one to
// four times.
func TestRetries(t *testing.T) {
	m, _, check := taught(t, func(tp *tape) {
		for range 2 * tp.n {
			file := minetest.Leaf("file", tp.id())
			tp.call("client", "create", nil, []trace.Leaf{file})
			for tries := tp.chance.IntN(4); tries >= 0; tries-- {
				tp.call("client", "complete", []trace.Leaf{file}, []trace.Leaf{minetest.Leaf("done", strconv.FormatBool(tries == 0))})
			}
		}
	})
	until := m.Program.Types[0].Calls[1].Until
	if until == nil || until.Path != "done" || until.Value != "true" {
		t.Fatalf("complete is not repeated until done: %+v", until)
	}
	if !check.Exact() || check.SequenceMatch != 1 || check.ArgumentsMatch != 1 {
		t.Errorf("exact %v, sequence %.3f, arguments %.3f", check.Exact(), check.SequenceMatch, check.ArgumentsMatch)
	}
}

// TestMergedMessages: every block is reported by min(5, n) of the nodes, but a
// node may put two into one message. It is found how many nodes report a block, and
// where its number comes from; the number of messages is listed as varying.
func TestMergedMessages(t *testing.T) {
	m, report, check := taught(t, mergedMessages)
	var received *program.Call
	for i := range m.Program.Types {
		for k := range m.Program.Types[i].Calls {
			if c := &m.Program.Types[i].Calls[k]; c.Method == "received" {
				received = c
			}
		}
	}
	if len(received.Reach) != 1 || received.Reach[0].From != "addBlock#1" || received.Reach[0].Nodes.String() != "min(5, n)" {
		t.Errorf("a block is not reported by min(5, n) nodes: %+v", received.Reach)
	}
	if len(report.Varying) != 1 || report.Varying[0].Method != "received" || !check.Exact() {
		t.Errorf("varying %+v, exact %v", report.Varying, check.Exact())
	}
	if report.Arguments.Unknown > 0 || check.ArgumentsMatch != 1 {
		t.Errorf("arguments %.3f, unknown %+v", check.ArgumentsMatch, report.Unknown)
	}
	if want := "map[1:true 2:true]"; fmt.Sprint(lengthsWritten(received)) != want {
		t.Errorf("lists of %v, want %s", lengthsWritten(received), want)
	}
}

func lengthsWritten(c *program.Call) map[int]bool {
	out := map[int]bool{}
	for _, l := range c.Lists {
		for _, f := range l.Lengths {
			out[f.At(26)] = true
		}
	}
	return out
}

func mergedMessages(tp *tape) {
	for k := range tp.n {
		tp.call(fmt.Sprintf("node-%d", k), "register", []trace.Leaf{minetest.Leaf("host", fmt.Sprintf(`"host-%d"`, k))}, nil)
	}
	waiting := make([][]trace.Leaf, tp.n)
	flush := func(k int) {
		var blocks []trace.Leaf
		for i, b := range waiting[k] {
			blocks = append(blocks, trace.Leaf{Path: fmt.Sprintf("blocks[%d].id", i), Kind: b.Kind, Value: b.Value})
		}
		if len(blocks) > 0 {
			tp.call(fmt.Sprintf("node-%d", k), "received", blocks, nil)
		}
		waiting[k] = nil
	}
	for range 5 * tp.n {
		block := minetest.Leaf("id", tp.id())
		tp.call("client", "addBlock", nil, []trace.Leaf{block})
		for _, k := range tp.chance.Perm(tp.n)[:min(5, tp.n)] {
			waiting[k] = append(waiting[k], block)
			if len(waiting[k]) == 2 || tp.chance.Float64() < 0.7 {
				flush(k)
			}
		}
	}
	for k := range tp.n {
		flush(k)
	}
}

// TestListOfTheScale: a list whose length follows the scale.
func TestListOfTheScale(t *testing.T) {
	m, report, check := taught(t, func(tp *tape) {
		for i := range 3 * tp.n {
			request := []trace.Leaf{minetest.Leaf("job", strconv.Itoa(i))}
			for k := range 2 * tp.n {
				request = append(request, minetest.Leaf(fmt.Sprintf("hosts[%d].name", k), fmt.Sprintf(`"host-%d"`, k)))
			}
			tp.call("client", "submit", request, nil)
		}
	})
	lists := m.Program.Types[0].Calls[0].Lists
	if len(lists) != 1 || len(lists[0].Lengths) != 1 || lists[0].Lengths[0].String() != "2*n" {
		t.Errorf("lists %+v, want hosts: [2*n]", lists)
	}
	if report.Arguments.Unknown > 0 || check.ArgumentsMatch != 1 || !check.Exact() {
		t.Errorf("arguments %.3f, unknown %+v", check.ArgumentsMatch, report.Unknown)
	}
}

// TestStray: one node of many makes one call more than all others. The check does not
// count that as a wrong prediction, and says why.
func TestStray(t *testing.T) {
	_, _, check := taught(t, func(tp *tape) {
		for k := range tp.n {
			tp.call(fmt.Sprintf("node-%d", k), "register", nil, nil)
			tp.call(fmt.Sprintf("node-%d", k), "report", nil, nil)
			if tp.n == 26 && k == 8 {
				tp.call("node-8", "report", nil, nil)
			}
		}
	})
	worst := check.ByType[0]
	if worst.Expected != 27 || worst.Predicted != 26 || worst.Why != "1 by each, but 2 by node-8" || !check.Exact() {
		t.Errorf("%+v", worst)
	}
}

// TestThrottle: a client that makes twenty calls as fast as it can, and after
// that one every 50 ms. At small scales there are no more than twenty.
func TestThrottle(t *testing.T) {
	_, report, check := taught(t, func(tp *tape) {
		for i := range 4 * tp.n {
			if i < 20 {
				tp.now += int64(1e6 * (1 + 2*tp.chance.Float64()))
			} else {
				tp.now += int64(1e6 * (49.8 + 0.4*tp.chance.Float64()))
			}
			tp.run.Add(&trace.Call{Scale: tp.n, Start: tp.now, End: tp.now + 1e5, Sender: "client", Target: "server", Method: "get"})
		}
	})
	if len(report.Throttled) != 1 || math.Abs(report.Throttled[0].Interval-50) > 1 || report.Throttled[0].From != 6 {
		t.Fatalf("throttled %+v, want every 50 ms from n = 6 on", report.Throttled)
	}
	if check.Intervals < 0.75 { // 84 of 104
		t.Errorf("intervals %.2f", check.Intervals)
	}
}

// TestThreads: calls of several threads at the same time have no order, and are
// predicted nevertheless; calls one after the other have an order.
func TestThreads(t *testing.T) {
	watches := []string{"watch pods", "watch nodes", "watch jobs", "watch leases", "watch events", "watch secrets"}
	m, _, check := taught(t, func(tp *tape) {
		for _, i := range tp.chance.Perm(len(watches)) {
			tp.now += 1e6
			tp.run.Add(&trace.Call{Scale: tp.n, Start: tp.now, End: tp.now + 1e10, Sender: "controller", Target: "server", Method: watches[i]})
		}
		for range 2 * tp.n {
			tp.call("controller", "create", nil, nil)
			tp.call("controller", "bind", nil, nil)
		}
	})
	steps := m.Program.Types[0].Steps
	if check.SequenceMatch != 1 || len(steps) != len(watches)+1 || len(steps[len(watches)].Steps) != 2 {
		t.Errorf("sequence %.3f, %d steps", check.SequenceMatch, len(steps))
	}
}

// TestThreadsThatDepend: the next file is opened while one is read, so that the
// two overlap in either order; but a read takes its argument from the last open, so
// they keep their order.
func TestThreadsThatDepend(t *testing.T) {
	m, _, check := taught(t, func(tp *tape) {
		id := ""
		open := func() {
			next := []trace.Leaf{{Path: "id", Kind: trace.Int, Value: tp.id()}}
			tp.run.Add(&trace.Call{Scale: tp.n, Start: tp.now, End: tp.now + 3e6, Sender: "client", Target: "server", Method: "open", Response: next})
			id = next[0].Value
			tp.now += 10e6
		}
		open()
		for range 4 * tp.n {
			last := []trace.Leaf{{Path: "id", Kind: trace.Int, Value: id}}
			open()
			tp.run.Add(&trace.Call{Scale: tp.n, Start: tp.now - 8e6, End: tp.now + 1e6, Sender: "client", Target: "server", Method: "read", Request: last})
		}
	})
	together := slices.ContainsFunc(m.shapes[0].Steps, func(s *order.Step) bool { return len(s.Body) == 2 })
	if check.ArgumentsMatch != 1 || check.SequenceMatch < 0.99 || !together {
		t.Errorf("arguments %.3f, sequence %.3f, open and read in one loop: %v", check.ArgumentsMatch, check.SequenceMatch, together)
	}
}

// TestSameRunsSameProgram: no order of a map decides anything.
func TestSameRunsSameProgram(t *testing.T) {
	first := ""
	for range 5 {
		m, _, _ := taught(t, mergedMessages)
		text, err := m.Program.Write()
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		}
		if string(text) != first {
			t.Fatalf("the same runs became another program:\n%s\n%s", first, text)
		}
	}
}

// TestNamesMeanNothing: other names of methods, targets and fields change no figure.
func TestNamesMeanNothing(t *testing.T) {
	_, plain, plainCheck := taught(t, mergedMessages)
	_, other, otherCheck := taught(t, func(tp *tape) {
		mergedMessages(tp)
		renameRun(tp)
	})
	if a, b := figures(plain, plainCheck), figures(other, otherCheck); a != b {
		t.Errorf("figures changed with the names:\n%s\n%s", a, b)
	}
}

// renameRun records a tape again with other names.
func renameRun(tp *tape) {
	calls := recordedCalls(tp.run)
	tp.run = tp.run.Corpus.Begin(tp.run.File)
	for i := range calls {
		rename(&calls[i])
		tp.run.Add(&calls[i])
	}
}

// recordedCalls are the calls of a run as they were recorded.
func recordedCalls(r *corpus.Recording) []trace.Call {
	leaves := func(m corpus.Message) []trace.Leaf {
		var out []trace.Leaf
		for k, p := range r.Corpus.Shapes.Paths[m.Shape] {
			out = append(out, trace.Leaf{Path: r.Corpus.Paths.Text[p], Kind: r.Corpus.Paths.Kind[p], Value: r.Corpus.Syms.Text[m.Values[k]]})
		}
		return out
	}
	out := make([]trace.Call, len(r.Calls))
	for i := range r.Calls {
		c := &r.Calls[i]
		op := r.Corpus.OpOf[c.Op]
		out[i] = trace.Call{Scale: r.Scale, Start: c.Start, End: c.End, Sender: r.Corpus.Syms.Text[c.Sender.Name], Target: op.Target, Method: op.Method,
			Request: leaves(c.Request), Response: leaves(c.Response)}
	}
	return out
}

// rename gives a call's sender, method, target and fields names that sort in another
// order and mean nothing.
func rename(c *trace.Call) {
	c.Sender, c.Method, c.Target = disguise(c.Sender), disguise(c.Method), disguise(c.Target)
	for _, leaves := range [][]trace.Leaf{c.Request, c.Response} {
		for i := range leaves {
			leaves[i].Path = disguise(leaves[i].Path)
		}
	}
}

// disguise turns letters round: a is z and z is a.
func disguise(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + 'z' - r
		case r >= 'A' && r <= 'Z':
			return 'A' + 'Z' - r
		}
		return r
	}, s)
}

// figures are the numbers of a report and a check, without names.
func figures(r *Report, c *Check) string {
	var rows []string
	for _, row := range c.ByType {
		rows = append(rows, fmt.Sprint(row.Nature, row.Expected, row.Predicted, row.Arguments, row.ArgumentsMatched))
	}
	slices.Sort(rows)
	return fmt.Sprintln(len(r.NodeTypes), r.Arguments, len(r.Unknown), len(r.Ambiguous), len(r.Varying), r.CountsExact,
		c.SequenceMatch, c.ArgumentsMatch, c.Intervals, rows)
}

// TestReactionsLearned: a target that is restarted in two of five runs asks its nodes to
// register again. The counts are those of nodes that nothing happens to, and the
// program says what they do when it does.
func TestReactionsLearned(t *testing.T) {
	m, report, check := taught(t, func(tp *tape) {
		ids := make([]string, tp.n)
		register := func(i int) {
			node := fmt.Sprintf("node-%d", i)
			tp.call(node, "hello", nil, []trace.Leaf{minetest.Leaf("version", `"v3"`)})
			tp.call(node, "register", []trace.Leaf{minetest.Leaf("id", `"`+ids[i]+`"`)}, []trace.Leaf{minetest.Leaf("session", tp.id())})
		}
		for i := range tp.n {
			ids[i] = fmt.Sprintf("%x-%x", tp.chance.Uint64(), tp.chance.Uint64())
			register(i)
		}
		for k := range 6 {
			for i := range tp.n {
				order := `"none"`
				if lost := k == 3 && (tp.n == 6 || tp.n == 12); lost {
					order = `"register"`
				}
				tp.call(fmt.Sprintf("node-%d", i), "beat", nil, []trace.Leaf{minetest.Leaf("orders[0]", order)})
				if order == `"register"` {
					register(i)
				}
			}
		}
	})
	if len(report.Varying) > 0 || len(report.Ambiguous) > 0 || !check.Exact() {
		t.Errorf("varying %+v, ambiguous %+v, %d calls, %d predicted", report.Varying, report.Ambiguous, check.CallsExpected, check.CallsPredicted)
	}
	if got, want := strings.Join(reactionsOf(t, m.Program), "; "), "node: beat orders[*] is register, hello#1, register#1"; got != want {
		t.Errorf("%s\n%s", got, want)
	}
}
