package replay

import (
	"cmp"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"gleaner/trace/replay/judge"
	"gleaner/trace/replay/plan"
)

// A Result is what was measured in one run at one scale.
type Result struct {
	Scale   int            `json:"scale"`
	Nodes   map[string]int `json:"nodes"`
	Seconds float64        `json:"seconds"`
	// Ended is why the run ended: done, time, interrupted.
	Ended string       `json:"ended"`
	Calls []CallResult `json:"calls"`

	Made      int     `json:"made"`       // calls sent
	PerSecond float64 `json:"per_second"` // answered, after the warm-up
	Answered  int     `json:"answered"`
	Refused   int     `json:"refused"`
	Failed    int     `json:"failed"`
	// What tells a broken program: see judge.Facts.
	Unsendable int    `json:"unsendable"`
	Lacking    int    `json:"lacking"` // calls that were not made, and conditions that were never met
	Unexpected int    `json:"unexpected"`
	Fault      *Fault `json:"fault,omitempty"` // the first of these
	// Overloaded is how many calls the target refused because it was overloaded, beyond
	// those of the recording.
	Overloaded int     `json:"overloaded"`
	TroubleAt  float64 `json:"trouble_s,omitempty"` // when a call was late, slow or without a reply for the first time; 0 for never
	// CPU is who used the CPU of this machine. Play does not measure it.
	CPU judge.CPU `json:"cpu"`
	// Machines are others that played.
	Machines []Machine `json:"machines,omitempty"`
	Latency  Spread    `json:"latency_ms"` // from the time a call was due
	Service  Spread    `json:"service_ms"` // from the time it was sent
	Lag      Spread    `json:"lag_ms"`     // between the two
	Dial     Spread    `json:"dial_ms"`
	// Busy is the largest number of calls that were under way at once, Workers
	// how many may be.
	Busy    int `json:"busy"`
	Workers int `json:"workers"`
	// Memory is what the players held at the end, in bytes; 0 if not measured.
	Memory int64 `json:"memory_bytes,omitempty"`

	Behind  int      `json:"behind"`              // nodes that the run was too short to start
	Cold    bool     `json:"cold,omitempty"`      // it ended within its warm-up
	Unsent  []string `json:"unsent,omitempty"`    // roles without a target
	Unstart []string `json:"unstarted,omitempty"` // types whose start never came
	MadeUp  []MadeUp `json:"made_up,omitempty"`
	Missing []Said   `json:"missing,omitempty"` // values and calls that did not come

	Reactions []Reacted `json:"reactions,omitempty"`
	Gaps      []Gap     `json:"gaps,omitempty"` // in which a target answered nothing

	Dead     []string `json:"dead,omitempty"` // nodes that the target declared dead
	Starved  int      `json:"starved"`        // calls without a reply because this machine had no file or port left for them
	Silenced int      `json:"silenced"`       // nodes without an answer to their last call
}

// A Machine is another one that played, and what it used for that.
type Machine struct {
	Name    string    `json:"name"`
	Address string    `json:"address"`
	CPU     judge.CPU `json:"cpu"`
	Memory  int64     `json:"memory_bytes"`
}

// A CallResult is what was measured of one call type.
type CallResult struct {
	NodeType   string  `json:"node_type"`
	Target     string  `json:"target"`
	Method     string  `json:"method"`
	Nature     string  `json:"nature"` // step, aside, beat, reach; until if a reply decides how often
	Made       int     `json:"made"`
	Answered   int     `json:"answered"`
	Refused    int     `json:"refused"`
	Failed     int     `json:"failed"`
	Retries    int     `json:"retries"`    // made again, after no reply or until the reply meets a condition
	Skipped    int     `json:"skipped"`    // not made, because a value was missing
	Missed     int     `json:"missed"`     // beats that passed while the one before had no answer
	Unsent     int     `json:"unsent"`     // not sent, because the role has no target
	Unsendable int     `json:"unsendable"` // not sent, because the arguments do not fit the target's message
	Sent       int     `json:"sent"`       // calls that were sent, all tries of one counted as one
	Heeded     int     `json:"heeded"`     // replies that nodes reacted to; they are no refusals
	Redone     int     `json:"redone"`     // of the calls made, those of reactions
	Unmet      int     `json:"unmet"`      // answered, but never as the program waits for, or made although what it waits for did not come
	Latency    Spread  `json:"latency_ms"`
	Service    Spread  `json:"service_ms"`
	Lag        Spread  `json:"lag_ms"`
	Errors     []Said  `json:"errors,omitempty"`
	PerSec     float64 `json:"per_second"`

	hist [3]*hdr.Histogram // latency, service and lag
}

// A Spread sums up a histogram, in milliseconds.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Said is what the target said, numbers masked, and how often.
type Said struct {
	What  string  `json:"what"`
	Count int     `json:"count"`
	First float64 `json:"first_s"` // seconds into the run
}

// MadeUp is an argument whose value has no source.
type MadeUp struct {
	Call     string `json:"call"`
	Argument string `json:"argument"`
	Count    int    `json:"count"`
}

// A gauge measures one call site.
type gauge struct {
	mu                    sync.Mutex
	made, sent, answered  int
	refused, failed       int
	retries, skipped      int
	missed, unsent        int
	unsendable, unmet     int
	heeded, redone        int
	starved, overloaded   int
	faults                [faultKinds]*Fault // the first of each kind
	latency, service, lag *hdr.Histogram
	errors                map[string]*Said
	missing               map[string]*Said
	madeUp                map[string]int
	patience              patience // needs no lock to be read
}

// newHistogram holds 1 µs to 1 h to two digits, in about 20 kB.
func newHistogram() *hdr.Histogram { return hdr.New(1, 3_600_000_000, 2) }

func micros(nanos int64) int64 { return min(max(nanos/1000, 1), 3_600_000_000) }

func observe(h **hdr.Histogram, nanos int64) {
	if *h == nil {
		*h = newHistogram()
	}
	_ = (*h).RecordValue(micros(nanos)) // cannot be out of range
}

func note(in *map[string]*Said, what string, at float64) {
	if *in == nil {
		*in = map[string]*Said{}
	}
	s := (*in)[what]
	if s == nil {
		s = &Said{What: what, First: at}
		(*in)[what] = s
	}
	s.Count++
}

func merged(hs []*hdr.Histogram) *hdr.Histogram {
	all := newHistogram()
	for _, h := range hs {
		if h != nil {
			all.Merge(h)
		}
	}
	return all
}

func spread(hs ...*hdr.Histogram) Spread {
	all := merged(hs)
	if all.TotalCount() == 0 {
		return Spread{}
	}
	ms := func(v int64) float64 { return float64(v) / 1000 }
	return Spread{Mean: all.Mean() / 1000, P50: ms(all.ValueAtQuantile(50)), P90: ms(all.ValueAtQuantile(90)), P99: ms(all.ValueAtQuantile(99)), Max: ms(all.Max())}
}

var (
	uuids   = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	numbers = regexp.MustCompile(`[0-9]+`)
	hexes   = regexp.MustCompile(`\b[0-9a-f]{8,}\b`)
)

// complaint is an error as it is counted.
func complaint(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "no reply in time"
	}
	return summary(err.Error())
}

// summary is a message of a target in one line with numbers masked, so that equal
// ones can be counted.
func summary(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	for _, masked := range []*regexp.Regexp{uuids, hexes, numbers} {
		text = masked.ReplaceAllString(text, "#")
	}
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return text
}

// result sums up the gauges: one row for each call type.
func (r *controller) result(ended string) *Result {
	seconds := time.Duration(r.now() - r.begun).Seconds()
	warm := max(seconds-r.Warmup.Seconds(), 1e-9)
	out := &Result{Scale: r.plan.Scale, Nodes: map[string]int{}, Seconds: seconds, Ended: ended,
		Cold: r.Warmup > 0 && seconds <= r.Warmup.Seconds(), Busy: int(r.queue.most), Workers: r.queue.limit, Calls: []CallResult{}}
	for _, k := range r.plan.Kinds {
		out.Nodes[k.Name] = k.Count
		for _, p := range r.players[k.At] {
			if p.silent.Load() {
				out.Silenced++
			}
		}
		out.Behind += r.behind(k)
	}
	type callType struct{ kind, target, method string }
	rows := map[callType][]*plan.Site{}
	var keys []callType
	for _, st := range r.plan.Sites {
		key := callType{st.Kind.Name, st.Target, st.Method}
		if rows[key] == nil {
			keys = append(keys, key)
		}
		rows[key] = append(rows[key], st)
	}
	var latency, service, lag []*hdr.Histogram
	missing := map[string]*Said{}
	for _, key := range keys {
		row := CallResult{NodeType: key.kind, Target: key.target, Method: key.method}
		var l, s, g []*hdr.Histogram
		said := map[string]*Said{}
		for _, st := range rows[key] {
			m := &r.gauges[st.ID]
			m.mu.Lock()
			row.add(m, st)
			out.addFaults(m, st)
			merge(said, m.errors)
			merge(missing, m.missing)
			for path, n := range m.madeUp {
				out.MadeUp = append(out.MadeUp, MadeUp{st.Name, path, n})
			}
			l, s, g = append(l, clone(m.latency)), append(s, clone(m.service)), append(g, clone(m.lag))
			m.mu.Unlock()
		}
		if row.Made+row.Failed+row.Unsent+row.Skipped+row.Unsendable == 0 {
			continue
		}
		row.hist = [3]*hdr.Histogram{merged(l), merged(s), merged(g)}
		row.Latency, row.Service, row.Lag, row.Errors = spread(l...), spread(s...), spread(g...), sorted(said)
		row.PerSec = float64(row.measured()) / warm
		latency, service, lag = append(latency, l...), append(service, s...), append(lag, g...)
		out.Calls = append(out.Calls, row)
		if row.Nature == "push" {
			continue // no node called it
		}
		out.PerSecond += row.PerSec
		out.Made, out.Answered, out.Refused, out.Failed = out.Made+row.Made, out.Answered+row.Answered, out.Refused+row.Refused, out.Failed+row.Failed
	}
	out.Latency, out.Service, out.Lag = spread(latency...), spread(service...), spread(lag...)
	out.Missing = sorted(missing)
	out.Reactions, out.Gaps = r.reacted(), r.gaps()
	slices.SortFunc(out.MadeUp, func(a, b MadeUp) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Argument, b.Argument))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Dial = spread(r.dials)
	out.Unsent, out.Unstart = r.unsent(), slices.Clone(r.unstarted)
	if out.Lacking += len(out.Unstart); len(out.Unstart) > 0 && out.Fault == nil {
		out.Fault = &Fault{What: faultNames[absent], At: seconds, Back: "never started: " + out.Unstart[0]}
	}
	if at := r.trouble.Load(); at > 0 {
		out.TroubleAt = r.into(at)
	}
	return out
}

// measured is how many calls were answered after the warm-up. Pushes are not counted:
// they have no times.
func (c *CallResult) measured() int64 {
	if c.Nature == "push" {
		return int64(c.Answered)
	}
	return c.hist[1].TotalCount()
}

// behind is how many nodes of a type had not started, in a run that was too short to
// start them all.
func (r *controller) behind(k *plan.Kind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.groups[k.At].long {
		return 0
	}
	return len(r.players[k.At]) - int(r.began[k.At].Load())
}

func clone(h *hdr.Histogram) *hdr.Histogram {
	if h == nil {
		return nil
	}
	return hdr.Import(h.Export())
}

func (c *CallResult) add(m *gauge, st *plan.Site) {
	c.Made, c.Answered, c.Refused, c.Failed = c.Made+m.made, c.Answered+m.answered, c.Refused+m.refused, c.Failed+m.failed
	c.Retries, c.Skipped, c.Missed, c.Unsent = c.Retries+m.retries, c.Skipped+m.skipped, c.Missed+m.missed, c.Unsent+m.unsent
	c.Sent, c.Unsendable, c.Unmet = c.Sent+m.sent, c.Unsendable+m.unsendable, c.Unmet+m.unmet
	c.Heeded, c.Redone = c.Heeded+m.heeded, c.Redone+m.redone
	switch {
	case st.Push:
		c.Nature = "push"
	case st.Nature == plan.InBeats:
		c.Nature = st.Nature.String()
	case st.Until != nil && c.Nature != plan.InBeats.String():
		c.Nature = "until"
	case c.Nature == "":
		c.Nature = st.Nature.String()
	}
}

func merge(into, from map[string]*Said) {
	for what, s := range from {
		have := into[what]
		if have == nil {
			have = &Said{What: what, First: s.First}
			into[what] = have
		}
		have.Count += s.Count
		have.First = min(have.First, s.First)
	}
}

func sorted(said map[string]*Said) []Said {
	out := make([]Said, 0, len(said))
	for _, s := range said {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Said) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What)) })
	return out
}

// unsent are the roles that are called but have no target.
func (r *controller) unsent() (out []string) {
	for _, st := range r.plan.Sites {
		if !st.Sent && !slices.Contains(out, st.Target) {
			out = append(out, st.Target)
		}
	}
	return out
}
