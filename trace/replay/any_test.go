package replay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/tracetest"
)

// TestAnyProgram plays the programs of the stories and of the documents, edited
// at random: every program that can be read is played to its end, or refused with an
// input error.
func TestAnyProgram(t *testing.T) {
	known := programs(t)
	tracetest.Cases(t, 500, 10_000, func(seed int) error {
		var c edited
		text := rapid.Custom(func(t *rapid.T) string { c = drawProgram(t, known); return c.text }).Example(seed)
		p, err := program.Read("edited.yaml", []byte(text))
		if input.Is(err) {
			return nil
		}
		if err == nil {
			synctest.Test(t, func(*testing.T) { err = playAny(p, c, uint64(seed)) })
		}
		if err != nil && !input.Is(err) {
			return fmt.Errorf("%w\n%s", err, text)
		}
		return nil
	})
}

// An edited program, at what scale and against what target it is played.
type edited struct {
	text  string
	scale int
	fails int // every so manieth call has no reply; 0: none
}

// Time in a synctest bubble passes at once when all goroutines wait.
const (
	mostCalls = 500
	mostSaid  = 100_000          // leaves of all of them
	longRun   = 20 * time.Second // waits are a second at most, and patience two
	quiet     = 10 * time.Second
)

// playAny plays a program until it is done, or for long enough to see that it goes on.
func playAny(p *program.Program, c edited, seed uint64) error {
	setting, err := grow.Resolve(p, grow.Setting{Scale: c.scale})
	if err != nil {
		return err
	}
	replay.Apart(p, setting)
	ctx, cancel := context.WithTimeout(context.Background(), longRun)
	defer cancel()
	to := &counted{fails: c.fails, enough: cancel, last: time.Now(), beats: map[string]bool{}}
	steps := 0
	for i := range p.Types {
		for _, b := range p.Types[i].Beats {
			to.beats[p.Types[i].Calls[slices.IndexFunc(p.Types[i].Calls, func(c program.Call) bool { return c.Name == b.Call })].Method] = true
		}
		steps += len(p.Types[i].Steps)
	}
	r, err := replay.Play(ctx, replay.Options{Program: p, Setting: setting, Targets: map[string]replay.Executor{"": to}, Seed: seed,
		Ramp: -1, Workers: 8, Compress: 3600, Timeout: time.Second, Patience: 2 * time.Second})
	if err != nil {
		return err
	}
	for _, call := range r.Calls {
		if min(call.Made, call.Answered, call.Skipped, call.Missed, call.Unsent) < 0 {
			return fmt.Errorf("a call was made %+v times", call)
		}
	}
	if _, err := r.Export(); err != nil {
		return err
	}
	if still := time.Since(to.last); r.Ended == "interrupted" && !to.busy() && still > quiet && steps > 0 && aside(p) == 0 {
		return fmt.Errorf("nothing was called for %v, and the run went on", still)
	}
	return nil
}

// aside counts the calls beside the steps: those may be as far apart as all their
// waits together.
func aside(p *program.Program) (n int) {
	for i := range p.Types {
		n += len(p.Types[i].Aside)
	}
	return n
}

// counted answers calls with their request and a value of its own, and reports when there
// were enough.
type counted struct {
	fails  int
	enough func()
	beats  map[string]bool // methods

	mu   sync.Mutex
	made int
	said int
	last time.Time // that a call was made that is no beat
}

// busy reports whether there were enough calls to see that the run goes on.
func (g *counted) busy() bool { return g.made >= mostCalls || g.said >= mostSaid }

func (g *counted) Dial(context.Context, replay.Identity) (replay.Conn, error) { return g, nil }
func (g *counted) Close() error                                               { return nil }

func (g *counted) Call(_ context.Context, c *trace.Call) (replay.Reply, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made, g.said = g.made+1, g.said+len(c.Request)
	if g.busy() {
		g.enough()
	}
	if !g.beats[c.Method] {
		g.last = time.Now()
	}
	if g.fails > 0 && g.made%g.fails == 0 {
		return replay.Reply{}, errors.New("connection reset by peer")
	}
	reply := replay.Reply{Leaves: slices.Clone(c.Request)}
	for i, path := range []string{"id", "lease", "x", "result", "names[0]", "names[1]", "blocks[0].id", "blocks[1].id"} {
		reply.Leaves = append(reply.Leaves, trace.Leaf{Path: path, Kind: trace.Int, Value: fmt.Sprint(g.made*10 + i)})
	}
	return reply, nil
}

// programs are those of the stories and of the examples, as documents.
func programs(t *testing.T) []string {
	out := []string{registered}
	stories, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stories {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\nprogram\n") {
			if story, _, ok := strings.Cut(part, "\n----\n"); ok && strings.HasPrefix(story, "types:") {
				out = append(out, "version: 1\nscales: [3]\n"+story+"\n")
			}
		}
	}
	for _, name := range []string{"../program/testdata/full.yaml", "../../examples/replay/heartbeat.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}

// drawProgram edits a program in a few places.
func drawProgram(t *rapid.T, known []string) edited {
	out := edited{scale: rapid.SampledFrom([]int{1, 2, 3, 5, 10_000_000}).Draw(t, "scale"), fails: rapid.SampledFrom([]int{0, 0, 3, 1}).Draw(t, "fails")}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(rapid.SampledFrom(known).Draw(t, "program")), &doc); err != nil {
		panic(err)
	}
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		rapid.SampledFrom([]func(*rapid.T, *yaml.Node){edit, edit, tie}).Draw(t, "how")(t, &doc)
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		panic(err)
	}
	out.text = string(text)
	return out
}

// tie makes a call or a type wait for a call, or be made for it.
func tie(t *rapid.T, doc *yaml.Node) {
	var names []string
	var calls, types []*yaml.Node
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			switch n.Content[i].Value {
			case "method":
				calls, names = append(calls, n), append(names, n.Content[1].Value)
			case "type":
				types = append(types, n)
			}
		}
		for _, in := range n.Content {
			walk(in)
		}
	}
	walk(doc.Content[0])
	if len(calls) == 0 || len(types) == 0 {
		return
	}
	to, text := rapid.SampledFrom(calls).Draw(t, "call"), rapid.SampledFrom([]string{"join: {after: %q}", "join: {after: %q, share: 1}", `reach: [{from: %q, nodes: "n"}]`}).Draw(t, "tie")
	if rapid.IntRange(0, 3).Draw(t, "a start") == 0 {
		to, text = rapid.SampledFrom(types).Draw(t, "type"), "start: {after: %q, share: 0.5, wait: 10}"
	}
	var said yaml.Node
	if err := yaml.Unmarshal(fmt.Appendf(nil, text, rapid.SampledFrom(names).Draw(t, "after")), &said); err != nil {
		panic(err)
	}
	key := said.Content[0].Content[0].Value
	for i := 0; i+1 < len(to.Content); i += 2 {
		if to.Content[i].Value == key { // it waits for something else already
			to.Content = slices.Delete(to.Content, i, i+2)
			break
		}
	}
	to.Content = append(to.Content, said.Content[0].Content...)
}

// edit changes one place of a document: a value is another, or is gone, or a list
// is empty, or holds something twice.
func edit(t *rapid.T, doc *yaml.Node) {
	var all, scalars []*yaml.Node
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		if all = append(all, n); n.Kind == yaml.ScalarNode {
			scalars = append(scalars, n)
		}
		for _, in := range n.Content {
			walk(in)
		}
	}
	walk(doc.Content[0])
	if rapid.Bool().Draw(t, "a value") {
		all = scalars
	}
	n := rapid.SampledFrom(all).Draw(t, "at")
	size := 1 // of what belongs together
	if n.Kind == yaml.MappingNode {
		size = 2
	}
	at := 0
	if len(n.Content) > 0 {
		at = size * rapid.IntRange(0, len(n.Content)/size-1).Draw(t, "place")
	}
	switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
	case n.Kind == yaml.ScalarNode && what == 0: // of the document: a call, a type
		n.Value, n.Tag, n.Style = rapid.SampledFrom(scalars).Draw(t, "other").Value, "", 0
	case n.Kind == yaml.ScalarNode:
		n.Value, n.Tag, n.Style = rapid.SampledFrom(nonsense).Draw(t, "value"), "", 0
	case what == 0:
		n.Content = nil
	case len(n.Content) == 0:
	case what == 1:
		n.Content = slices.Delete(n.Content, at, at+size)
	case n.Kind == yaml.SequenceNode:
		n.Content = append(n.Content, n.Content[at])
	default:
		key := rapid.SampledFrom([]string{"repeat", "share", "join", "start", "reach", "until", "every", "wait", "a[*].b[*].c[*]", "a[2000000000].x", "[*]"}).Draw(t, "key")
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, n.Content[at+1])
	}
}

// nonsense are numbers, formulas and values that a user may write by mistake.
var nonsense = []string{"0", "1", "-1", "2", "1000000000", "9007199254740993", "99999999999999999999", "0.5", "1e-300", ".nan", ".inf", "~", "",
	"n", "n*n*n", "n-3", "0-n", "1/0", "0/0", "n/(n-3)", "n%0", "2^99", "0-2^99", "log2(0)", "sqrt(0-1)", "node", "node-1", "node%0", "0.0000000001", "1000000000*node",
	"={i%(n-n)}", "={1/0}", "{node/0:05}", `={reply any "id" each}`, `{arg "src"}`, `={reply any "names[0]" index item 0}`, `={request any "a[0].x" index item 0}`,
	`{reply any "x" i by anyone}`, `={sum 1 + "id"}`, `{case arg "x" "1" "2"}`, `{first "a" then "b"}`, `{draw "a"}`, `={reply any "id" where reply "x" is "x" index row 0}`,
	"a[*].b[*].c[*]", "a[2000000000].x", "x#push"}
