package replay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/judge"
)

// TestStories plays programs against a target that answers by rules. Each file
// of testdata is a story:
//
//	program          the program, as YAML
//	target           one rule a line, see rules
//	play [n=N] [for=D] [nodes=TYPE:N] [compress=X] [on-error=P] [roles=A,B] [timeout=D] [patience=D] [workers=N] [stay=true] [show=sender|counts|when|verdict]
//
// Stories run in a synctest bubble: no test waits, and no call is late.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var p *program.Program
		var rules string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "program":
				got, err := program.Read("story", []byte("version: 1\nscales: [3]\n"+d.Input+"\n"))
				if err != nil {
					return err.Error()
				}
				p = got
			case "target":
				rules = d.Input
			case "play":
				var out string
				synctest.Test(t, func(t *testing.T) { out = play(t, d, p, rules) })
				return out
			default:
				t.Fatalf("no command %q", d.Cmd)
			}
			return "ok"
		})
	})
}

func play(t *testing.T, d *datadriven.TestData, p *program.Program, rules string) string {
	o := replay.Options{Program: p, Ramp: -1, Seed: 1, Workers: 1}
	setting := grow.Setting{Scale: 3, Nodes: map[string]int{}}
	show, roles := "counts", []string{""}
	for _, arg := range d.CmdArgs {
		v := arg.Vals[0]
		var err error
		switch arg.Key {
		case "n":
			setting.Scale, err = strconv.Atoi(v)
		case "for":
			o.For, err = time.ParseDuration(v)
		case "timeout":
			o.Timeout, err = time.ParseDuration(v)
		case "patience":
			o.Patience, err = time.ParseDuration(v)
		case "ramp":
			o.Ramp, err = time.ParseDuration(v)
		case "compress":
			o.Compress, err = strconv.ParseFloat(v, 64)
		case "on-error":
			o.OnError, err = replay.ParsePolicy(v)
		case "workers":
			o.Workers, err = strconv.Atoi(v)
		case "share":
			o.Share, err = strconv.Atoi(v)
		case "roles":
			roles = arg.Vals
		case "stay":
			o.Stay, err = strconv.ParseBool(v)
		case "show":
			show = v
		case "nodes":
			name, n, _ := strings.Cut(v, ":")
			setting.Nodes[name], err = strconv.Atoi(n)
		default:
			t.Fatalf("no argument %q", arg.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if o.Setting, err = grow.Resolve(p, setting); err != nil {
		return err.Error()
	}
	target := newTarget(t, rules)
	o.Targets = map[string]replay.Executor{}
	for _, role := range roles {
		o.Targets[role] = target
	}
	result, err := replay.Play(t.Context(), o)
	if err != nil {
		return err.Error()
	}
	if show == "verdict" {
		return judged(t, result)
	}
	return target.heard(show) + summary(result)
}

// judged is the verdict on a run, and the call that shows that the program is broken.
func judged(t *testing.T, r *replay.Result) string {
	report, err := replay.Sweep(t.Context(), []int{r.Scale}, judge.Limits{}, func(context.Context, int) (*replay.Result, error) { return r, nil })
	if err != nil {
		t.Fatal(err)
	}
	v := report.Runs[0]
	out := strings.TrimSuffix(fmt.Sprintf("%s: %s", v.Verdict, v.Why), ": ") + "\n"
	if f := r.Fault; f != nil {
		out += fmt.Sprintf("%s %s of %s %s after %gs\nsent: %s\ncame back: %s\n", f.NodeType, f.Call, cmp.Or(f.Sender, "?"), f.What, f.At, f.Sent, f.Back)
	}
	return out
}

// summary is a result without the calls.
func summary(r *replay.Result) string {
	var out strings.Builder
	for _, c := range r.Calls {
		for _, e := range c.Errors {
			fmt.Fprintf(&out, "%s %s: %s (%d)\n", c.NodeType, c.Method, e.What, e.Count)
		}
		if c.Skipped+c.Unsent+c.Missed > 0 {
			fmt.Fprintf(&out, "%s %s: %d skipped, %d unsent, %d beats missed\n", c.NodeType, c.Method, c.Skipped, c.Unsent, c.Missed)
		}
	}
	for _, a := range r.Reactions {
		fmt.Fprintf(&out, "%s reacted to %s when %s: %d answers, %d times, from %gs to %gs\n", a.NodeType, strings.Join(a.To, " "), a.When, a.Replies, a.Begun, a.First, a.Last)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(&out, "no answer of %q for %.1fs, from %gs on\n", g.Role, g.Seconds, g.From)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&out, "%s (%d)\n", m.What, m.Count)
	}
	for _, m := range r.MadeUp {
		fmt.Fprintf(&out, "made up: %s of %s (%d)\n", m.Argument, m.Call, m.Count)
	}
	for _, u := range r.Unstart {
		fmt.Fprintf(&out, "never started: %s\n", u)
	}
	if len(r.Unsent) > 0 {
		fmt.Fprintf(&out, "no target: %s\n", strings.Join(r.Unsent, " "))
	}
	fmt.Fprintf(&out, "%s after %s\n", r.Ended, time.Duration(r.Seconds*float64(time.Second)).Round(50*time.Millisecond))
	return out.String()
}

// A target answers by rules, one a line:
//
//	METHOD path=value...    reply with these leaves
//	METHOD refuse STATUS    reply with a status
//	METHOD after D ...      and that so much later
//	METHOD nth N ...        only to a node's N-th call of the method, from 0
//	METHOD hang             no reply
//	METHOD unfit            the arguments do not fit
//	METHOD cut              break the connection
//	dial refuse             no connection
//
// In a value, $i is how many calls of the method the node made before, $sender
// who calls, and $path$ what the request holds at path.
type target struct {
	t     *testing.T
	rules []rule
	begun time.Time

	mu    sync.Mutex
	count map[string]int
	calls []heard
}

type rule struct {
	method string
	nth    int
	after  time.Duration
	do     string
	status string
	leaves [][2]string
}

type heard struct {
	at     time.Duration
	sender string
	method string
	text   string
}

func newTarget(t *testing.T, rules string) *target {
	out := &target{t: t, count: map[string]int{}, begun: time.Now()}
	for line := range strings.Lines(rules) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r := rule{method: words[0], nth: -1}
		for i := 1; i < len(words); i++ {
			switch words[i] {
			case "nth":
				i++
				r.nth, _ = strconv.Atoi(words[i])
			case "after":
				i++
				r.after, _ = time.ParseDuration(words[i])
			case "refuse":
				r.do = "refuse"
				if i++; i < len(words) {
					r.status = words[i]
				}
			case "hang", "cut", "unfit":
				r.do = words[i]
			default:
				path, value, ok := strings.Cut(words[i], "=")
				if !ok {
					t.Fatalf("no rule %q", line)
				}
				r.leaves = append(r.leaves, [2]string{path, value})
			}
		}
		out.rules = append(out.rules, r)
	}
	return out
}

func (g *target) Dial(_ context.Context, who replay.Identity) (replay.Conn, error) {
	if r := g.rule("dial", g.number("dial")); r != nil && r.do == "refuse" {
		return nil, errors.New("connection refused")
	}
	return &line{g, make(chan struct{})}, nil
}

func (g *target) number(method string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count[method]++
	return g.count[method] - 1
}

func (g *target) rule(method string, nth int) *rule {
	for i := range g.rules {
		if r := &g.rules[i]; r.method == method && (r.nth < 0 || r.nth == nth) {
			return r
		}
	}
	return nil
}

type line struct {
	*target
	closed chan struct{}
}

func (c *line) Close() error { return nil }

// Pushed pushes what the rules have for a method that was not called.
func (c *line) Pushed(method string, take func(replay.Reply)) (cancel func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	go func() {
		if reply, err := c.Call(ctx, &trace.Call{Method: method, Sender: "target"}); err == nil {
			take(reply)
		}
	}()
	return cancel
}

func (c *line) Call(ctx context.Context, call *trace.Call) (replay.Reply, error) {
	nth := c.number(call.Sender + " " + call.Method)
	c.note(call)
	r := c.rule(call.Method, nth)
	if r == nil {
		return replay.Reply{}, nil
	}
	time.Sleep(r.after)
	switch r.do {
	case "hang":
		<-ctx.Done()
		return replay.Reply{}, ctx.Err()
	case "cut":
		return replay.Reply{}, errors.New("connection reset by peer")
	case "unfit":
		return replay.Reply{}, fmt.Errorf("%w: a word for a number", replay.ErrUnsendable)
	}
	reply := replay.Reply{Status: r.status}
	for _, l := range r.leaves {
		text := strings.ReplaceAll(strings.ReplaceAll(l[1], "$i", strconv.Itoa(nth)), "$sender", call.Sender)
		for _, a := range call.Request {
			text = strings.ReplaceAll(text, "$"+a.Path+"$", a.Value)
		}
		reply.Leaves = append(reply.Leaves, trace.Leaf{Path: l[0], Kind: trace.String, Value: text})
	}
	leaves := reply.Leaves
	reply.Leaves, reply.Decode = nil, func() []trace.Leaf { return leaves } // put off, as by protocols that save the work
	return reply, nil
}

func (g *target) note(call *trace.Call) {
	var args []string
	for _, l := range call.Request {
		v := l.Value
		if l.Kind == trace.String {
			v = strconv.Quote(v)
		}
		args = append(args, l.Path+"="+v)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, heard{time.Since(g.begun), call.Sender, call.Method, strings.Join(args, " ")})
}

// heard prints the calls that came: how many, by sender, or with their times.
func (g *target) heard(show string) string {
	var out strings.Builder
	switch show {
	case "counts":
		seen := map[string]int{}
		for _, c := range g.calls {
			seen[c.method]++
		}
		for _, m := range sortedKeys(seen) {
			fmt.Fprintf(&out, "%s %d\n", m, seen[m])
		}
	case "sender":
		slices.SortStableFunc(g.calls, func(a, b heard) int { return cmp.Compare(a.sender, b.sender) })
		for _, c := range g.calls {
			fmt.Fprintln(&out, strings.TrimSpace(c.sender+" "+c.method+" "+c.text))
		}
	case "when":
		slices.SortStableFunc(g.calls, func(a, b heard) int {
			return cmp.Or(cmp.Compare(a.at.Round(50*time.Millisecond), b.at.Round(50*time.Millisecond)), cmp.Compare(a.sender, b.sender), cmp.Compare(a.method, b.method))
		})
		for _, c := range g.calls {
			fmt.Fprintf(&out, "%s %s %s\n", c.at.Round(50*time.Millisecond), c.sender, c.method)
		}
	}
	return out.String()
}

func sortedKeys(m map[string]int) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
