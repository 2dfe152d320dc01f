package draft_test

import (
	"strings"
	"testing"

	"gleaner/trace"
	"gleaner/trace/draft"
)

const second = int64(1e9)

// A client asks 30 times in one minute and 60 times in the next; each ask makes the
// shop get two prices, and one in three prices asks the shop back.
func recorded() []*trace.Call {
	var out []*trace.Call
	call := func(id, parent, target, method string, at, end int64) {
		out = append(out, &trace.Call{Run: "r", ID: id, Parent: parent, Start: at, End: end, Target: target, Method: method,
			Request: []trace.Leaf{{Path: "q", Value: "123"}}, Response: []trace.Leaf{{Path: "answer", Value: "1234"}}})
	}
	for i := range int64(90) {
		at := 600*second + i*2*second
		if i >= 30 {
			at = 660*second + (i-30)*second
		}
		id := string(rune('A' + i))
		call(id, "", "shop", "buy", at, at+second)
		call(id+"1", id, "prices", "getPrice", at+1, at+second/2)
		call(id+"2", id, "prices", "getPrice", at+2, at+second/2)
		if i%3 == 0 {
			call(id+"3", id+"1", "shop", "buy", at+3, at+second/4)
		}
	}
	return out
}

func TestADraftHasRatesRecordsSizesAndDependencies(t *testing.T) {
	s := draft.Of(recorded(), 10)
	app, sla := s.Application(), s.SLA()
	for _, want := range []string{
		`- io: {op: W, dataset: "data of shop", record_size: 4B}`,                                                  // its request: q and 123
		`- io: {op: R, dataset: "data of prices", record_size: 10B}`,                                               // its reply: answer and 1234
		`- dependency: {task: "prices getPrice", num_invocations: 1.5, blocking: 1, inline: 0, message_size: 14B}`, // 180 by 120
		`# Left out, it would close a cycle:`,
	} {
		if !strings.Contains(app, want) {
			t.Errorf("the application lacks %s:\n%s", want, app)
		}
	}
	if !strings.Contains(sla, `{task: "shop buy", rate: 1}`) || strings.Contains(sla, "getPrice") {
		t.Errorf("the busiest minute has 60 of what was asked for:\n%s", sla)
	}
}

func TestRareMethodsAreLeftOutAndNamed(t *testing.T) {
	s := draft.Of(recorded(), 1)
	if len(s.Tasks) != 1 || len(s.Left) != 1 || len(s.Tasks[0].Triggers) != 0 {
		t.Errorf("of two methods, one is listed: %+v", s)
	}
}
