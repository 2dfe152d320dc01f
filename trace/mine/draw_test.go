package mine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
)

// A cut is what is taken from a recorded system: its calls at several scales.
type cut []recording

// cuts reads the recorded systems, if they are there.
func cuts(t *testing.T) []cut {
	var out []cut
	for _, system := range []string{"k8s", "hadoop"} {
		var c cut
		for _, name := range []string{"n003", "n004", "n006a", "n006b", "n008"} {
			run := opened(t, corpus.New(), system+"/"+name, func(*trace.Call) {})
			if run == nil {
				t.Logf("no recordings of %s: only synthetic ones are damaged", system)
				break
			}
			c = append(c, recording{run.Scale, recordedCalls(run)})
		}
		if len(c) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// drawRecordings draws recordings to mine and, last, one to check.
func drawRecordings(t *rapid.T, real []cut) []recording {
	sources := []func(*rapid.T) []recording{drawPrograms, drawNoise}
	if len(real) > 0 {
		sources = append(sources, func(t *rapid.T) []recording {
			return rapid.SampledFrom(real).Draw(t, "system").draw(t)
		})
	}
	runs := rapid.SampledFrom(sources).Draw(t, "source")(t)
	for range rapid.IntRange(0, 4).Draw(t, "damages") {
		rapid.SampledFrom(damages).Draw(t, "damage")(t, runs)
	}
	if rapid.IntRange(0, 9).Draw(t, "one scale") == 0 {
		runs = []recording{runs[0], runs[len(runs)-1]}
	}
	return runs
}

// drawScales draws the scales of some recordings, small ones and close to each
// other as often as not.
func drawScales(t *rapid.T) []int {
	return rapid.SampledFrom([][]int{{1, 2, 3, 4}, {2, 3, 4, 5}, {2, 4, 6, 3}, {4, 8, 12, 16}, {3, 4, 6, 8, 12, 5}, {3, 3, 4, 4}, {12, 8, 4, 2}, {5, 7}}).Draw(t, "scales")
}

// drawPrograms records a random program.
func drawPrograms(t *rapid.T) []recording {
	s, chance := drawScript(t), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "chance"), 0))
	var out []recording
	for _, n := range drawScales(t) {
		calls := recordedCalls(s.run(corpus.New(), n, chance))
		out = append(out, recording{n, calls[:min(len(calls), 150)]})
	}
	return out
}

// drawNoise records a few calls that have nothing in common but their names, and a
// number that goes up or down with the scale.
func drawNoise(t *rapid.T) []recording {
	word := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "5", "6", "true", "a-1", "part-00002", "x"})
	leaves := func(paths ...string) (out []trace.Leaf) {
		for _, p := range paths {
			for range rapid.IntRange(0, 2).Draw(t, "elements") {
				out = append(out, minetest.Leaf(fmt.Sprintf(p, len(out)), word.Draw(t, "value")))
			}
		}
		return out
	}
	var out []recording
	most, senders, methods := rapid.SampledFrom([]int{2, 4, 12}).Draw(t, "most"), rapid.IntRange(1, 3).Draw(t, "senders"), rapid.IntRange(1, 2).Draw(t, "methods")
	slope, noise := rapid.IntRange(-2, 2).Draw(t, "slope"), rapid.SampledFrom([]int{1, 6}).Draw(t, "noise")
	for _, n := range drawScales(t) {
		r := recording{scale: n}
		at := int64(1e18)
		for range rapid.IntRange(1, most).Draw(t, "calls") {
			at += rapid.SampledFrom([]int64{0, 1e6, 1e9, 1e12}).Draw(t, "gap")
			sender := fmt.Sprintf("s-%d", rapid.IntRange(1, senders).Draw(t, "sender"))
			method := fmt.Sprintf("m%d", rapid.IntRange(1, methods).Draw(t, "method"))
			number := trace.Leaf{Path: "x", Kind: trace.Int, Value: strconv.Itoa(max(0, 9+slope*n+rapid.IntRange(0, noise).Draw(t, "x")))}
			r.calls = append(r.calls, trace.Call{Scale: n, Start: at, End: at + 1e5, Sender: sender, Target: "t", Method: method,
				Request: append([]trace.Leaf{number}, leaves("l[%d].y")...), Response: leaves("r%d")})
		}
		out = append(out, r)
	}
	return out
}

// draw takes a few kinds of calls from all recordings of a system, or some in a row.
func (c cut) draw(t *rapid.T) []recording {
	var methods []string
	for _, call := range c[0].calls {
		if !slices.Contains(methods, call.Method) {
			methods = append(methods, call.Method)
		}
	}
	keep := rapid.SliceOfN(rapid.SampledFrom(methods), 0, 3).Draw(t, "methods")
	most := rapid.IntRange(1, 80).Draw(t, "most")
	var out []recording
	for _, r := range c {
		picked := recording{scale: r.scale}
		for _, call := range r.calls {
			if len(picked.calls) < most && (len(keep) == 0 || slices.Contains(keep, call.Method)) {
				call.Request, call.Response = slices.Clone(call.Request), slices.Clone(call.Response)
				picked.calls = append(picked.calls, call)
			}
		}
		out = append(out, picked)
	}
	return out
}

// damages are what may happen to recordings.
var damages = []func(*rapid.T, []recording){
	// Calls are dropped.
	func(t *rapid.T, runs []recording) {
		r, share := drawRun(t, runs), rapid.Float64Range(0, 1).Draw(t, "share")
		r.calls = slices.DeleteFunc(r.calls, func(trace.Call) bool { return rapid.Float64Range(0, 1).Draw(t, "dropped") < share })
	},
	// A call is repeated.
	eachDamage(func(t *rapid.T, r *recording, at int) {
		again, gap := r.calls[at], rapid.SampledFrom([]int64{0, 1e6, 15e7, 2e11}).Draw(t, "gap")
		for range rapid.IntRange(1, 20).Draw(t, "times") {
			again.Start, again.End = again.Start+gap, again.End+gap
			r.calls = append(r.calls, again)
		}
	}),
	// Two calls change places.
	eachDamage(func(t *rapid.T, r *recording, at int) {
		a, b := &r.calls[at], &r.calls[rapid.IntRange(0, len(r.calls)-1).Draw(t, "other")]
		a.Start, a.End, b.Start, b.End = b.Start, b.End, a.Start, a.End
	}),
	// A value changes.
	eachDamage(func(t *rapid.T, r *recording, at int) {
		if l := drawLeaf(t, &r.calls[at]); l != nil {
			*l = trace.Leaf{Path: l.Path, Kind: drawKind.Draw(t, "kind"), Value: drawValue.Draw(t, "value")}
			if l.Kind != trace.String {
				l.Value = rapid.SampledFrom(plainValues[l.Kind]).Draw(t, "plain")
			}
		}
	}),
	// All values at one path change.
	eachDamage(func(t *rapid.T, r *recording, at int) {
		l := drawLeaf(t, &r.calls[at])
		if l == nil {
			return
		}
		path := l.Path
		for i := range r.calls {
			for k := range r.calls[i].Request {
				if q := &r.calls[i].Request[k]; q.Path == path {
					q.Kind, q.Value = trace.String, drawValue.Draw(t, "value")
				}
			}
		}
	}),
	// A leaf moves to another path.
	eachDamage(func(t *rapid.T, r *recording, at int) {
		if l := drawLeaf(t, &r.calls[at]); l != nil {
			l.Path = rapid.SampledFrom([]string{"x", "l[0].y", "l[7].y", "l[1].m[2]", "l[*].y", "m[3][4]", "a.b", `c\[0]`, "l[-1]", "<<", "="}).Draw(t, "path")
		}
	}),
	// A call has another sender, method or address, no reply, or a parent.
	eachDamage(func(t *rapid.T, r *recording, at int) {
		c := &r.calls[at]
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			c.Sender = "s" + drawValue.Draw(t, "sender")
		case 1:
			c.Method = "m" + drawValue.Draw(t, "method")
		case 2:
			c.Address = drawValue.Draw(t, "address")
		case 3:
			c.End, c.Response = 0, nil
		case 4:
			c.Target = drawValue.Draw(t, "target")
		case 5:
			r.calls[rapid.IntRange(0, len(r.calls)-1).Draw(t, "parent")].ID = "p"
			c.Parent = "p"
		}
	}),
	// A recording claims another scale.
	func(t *rapid.T, runs []recording) {
		r := drawRun(t, runs)
		r.scale = rapid.SampledFrom([]int{1, runs[0].scale, 7, 1_000_000, 1 << 40, 1<<63 - 1}).Draw(t, "scale")
		for i := range r.calls {
			r.calls[i].Scale = r.scale
		}
	},
	// Time passes more slowly, or not at all.
	func(t *rapid.T, runs []recording) {
		r, by := drawRun(t, runs), rapid.SampledFrom([]int64{0, 1, 50, 3600}).Draw(t, "slower")
		for i := range r.calls {
			if c := &r.calls[i]; c.End != 0 {
				c.End = c.End - c.Start
				c.Start = 1e18 + max(0, min(c.Start-1e18, 1e11))*by
				c.End += c.Start
			}
		}
	},
}

// eachDamage damages a few calls of one recording, or of all.
func eachDamage(one func(t *rapid.T, r *recording, at int)) func(*rapid.T, []recording) {
	return func(t *rapid.T, runs []recording) {
		if rapid.Bool().Draw(t, "of one") {
			r := drawRun(t, runs)
			runs = []recording{*r}
			defer func() { *r = runs[0] }()
		}
		for i := range runs {
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				if n := len(runs[i].calls); n > 0 {
					one(t, &runs[i], rapid.IntRange(0, n-1).Draw(t, "call"))
				}
			}
		}
	}
}

func drawRun(t *rapid.T, runs []recording) *recording {
	return &runs[rapid.IntRange(0, len(runs)-1).Draw(t, "run")]
}

func drawLeaf(t *rapid.T, c *trace.Call) *trace.Leaf {
	leaves := c.Request
	if len(leaves) == 0 || rapid.Bool().Draw(t, "of the reply") {
		leaves = c.Response
	}
	if len(leaves) == 0 {
		return nil
	}
	return &leaves[rapid.IntRange(0, len(leaves)-1).Draw(t, "leaf")]
}

var drawKind = rapid.SampledFrom([]trace.Kind{trace.String, trace.Int, trace.Float, trace.Bool, trace.Null})

// drawValue draws texts, among them some with a meaning to YAML or to a program.
var drawValue = rapid.OneOf(rapid.SampledFrom([]string{"", "0", "1", "2", "3", "-1", "00000000000000000000000000000000000000000000000001", "007", "9223372036854775807",
	"99999999999999999999999", "1e9", "0x10", "NaN", ".inf", "null", "~", "true", "{", "}", "{i}", "{{", "={n}", "=", "a\x00b", "\x00", "a\nb", " ", "\"", "é-1", "part-{node}",
	"10.0.0.1", "2026-01-02T03:04:05Z", "<<", "a|b:c"}), rapid.StringN(0, 6, 12))

var plainValues = map[trace.Kind][]string{
	trace.Int:   {"0", "1", "-1", "5", "9223372036854775807", "-9223372036854775808", "1073741824"},
	trace.Float: {"0.5", "1e300", "-2.25", "1E-9"},
	trace.Bool:  {"true", "false"},
	trace.Null:  {"null"},
}
