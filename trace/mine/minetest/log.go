// Package minetest reads small logs into a corpus, for tests that tell a story. A
// log is written as in PatternMiner's Figure 3, one call a line, with the sender
// before it:
//
//	[TIME] SENDER[@ADDRESS][#ID][^PARENT]: [REPLY =] METHOD(ARG, ARG...)
//
// Calls are 10 ms apart, unless a time in seconds stands before them, and are
// answered after 5 ms. A text has quotes. A list is [1 2 3], in a reply [1,2,3]. The
// reply !503 is a refusal.
package minetest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
)

// Recording reads the log of one run. It is not learned from yet.
func Recording(t testing.TB, c *corpus.Corpus, scale int, log string) *corpus.Recording {
	t.Helper()
	r := c.Begin(fmt.Sprintf("n%03d", scale))
	now := 1000.0
	for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
		call, at := parse(t, line, now+0.01)
		call.Scale, now = scale, at
		r.Add(call)
	}
	return r
}

var callLine = regexp.MustCompile(`^(?:([\d.]+) )?([\w-]+)(?:@([\w.]+))?(?:#(\w+))?(?:\^(\w+))?: (?:(\S+) = )?(\w+)\((.*)\)$`)

// parse reads one line. The call is made at next, in seconds, unless the line
// says when.
func parse(t testing.TB, line string, next float64) (call *trace.Call, at float64) {
	t.Helper()
	m := callLine.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		t.Fatalf("not a call: %s", line)
	}
	at = next
	if m[1] != "" {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		at = 1000 + seconds
	}
	call = &trace.Call{Start: int64(at * 1e9), End: int64((at + 0.005) * 1e9), Sender: m[2], Address: m[3], ID: m[4], Parent: m[5], Method: m[7], Target: "server"}
	if status, refused := strings.CutPrefix(m[6], "!"); refused {
		call.Status = status
	} else if m[6] != "" {
		call.Response = leaves("return", strings.ReplaceAll(m[6], ",", " "))
	}
	if m[8] != "" {
		for i, arg := range strings.Split(m[8], ", ") {
			call.Request = append(call.Request, leaves(fmt.Sprintf("args%d", i), arg)...)
		}
	}
	return call, at
}

func leaves(path, text string) (out []trace.Leaf) {
	if !strings.HasPrefix(text, "[") {
		return []trace.Leaf{Leaf(path, text)}
	}
	for i, item := range strings.Fields(strings.Trim(text, "[]")) {
		out = append(out, Leaf(fmt.Sprintf("%s[%d]", path, i), item))
	}
	return out
}

// Leaf is a value as a log writes it.
func Leaf(path, text string) trace.Leaf {
	if plain, err := strconv.Unquote(text); err == nil {
		return trace.Leaf{Path: path, Kind: trace.String, Value: plain}
	}
	if text == "true" || text == "false" {
		return trace.Leaf{Path: path, Kind: trace.Bool, Value: text}
	}
	return trace.Leaf{Path: path, Kind: trace.Int, Value: text}
}
