package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"gleaner/input"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay/judge"
	"gleaner/trace/replay/plan"
)

// Apart reports whether the nodes of a program are independent: none waits for another,
// and no argument comes from a call of another. Then several processes may play a part
// each.
func Apart(p *program.Program, s grow.Setting) bool {
	pl := plan.New(p, s, func(string) bool { return true })
	for _, k := range pl.Kinds {
		if k.Start != nil || len(k.Lanes.Reach) > 0 {
			return false
		}
	}
	for _, st := range pl.Sites {
		if st.Global || len(st.Opens) > 0 {
			return false
		}
	}
	return true
}

// An Order is what a process is told that plays a part of the nodes: one document, so
// that nothing is told twice or left out.
type Order struct {
	Program string            `json:"program"` // as YAML
	Targets map[string]string `json:"targets"` // addresses, by role; see Options.Targets
	Options Options           `json:"options"`
}

// Orders are those of n processes that together play what the options say, which may be a part itself.
func Orders(o Options, targets map[string]string, n int) ([]Order, error) {
	text, err := o.Program.Write()
	if err != nil {
		return nil, err
	}
	out := make([]Order, n)
	part, parts := o.Part, max(o.Parts, 1)
	for i := range out {
		o.Part, o.Parts = part+parts*i, parts*n
		out[i] = Order{string(text), targets, o}
	}
	return out, nil
}

// ReadOrder reads an order. Its targets are left to be opened.
func ReadOrder(in io.Reader) (*Order, error) {
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	out := &Order{}
	if err := dec.Decode(out); err != nil {
		return nil, input.Errorf("the order", "%v", err)
	}
	return out, out.Read()
}

// Read reads the program of an order.
func (o *Order) Read() (err error) {
	if o.Options.Part < 0 || o.Options.Part >= o.Options.Parts {
		return input.Errorf("the order", "there is no part %d of %d", o.Options.Part, o.Options.Parts)
	}
	o.Options.Program, err = program.Read("the order's program", []byte(o.Program))
	return err
}

// exported is a result with its histograms, so that it can be merged.
type exported struct {
	*Result
	Histograms [][3][]byte `json:"histograms"` // by call
}

// Export encodes a result, so that another process can merge it.
func (r *Result) Export() ([]byte, error) {
	out := exported{Result: r}
	for i := range r.Calls {
		var three [3][]byte
		for j, h := range r.Calls[i].hist {
			b, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
			if err != nil {
				return nil, fmt.Errorf("replay: export: %w", err)
			}
			three[j] = b
		}
		out.Histograms = append(out.Histograms, three)
	}
	return json.Marshal(out)
}

// Import reads what Export wrote.
func Import(b []byte) (*Result, error) {
	in := exported{Result: &Result{}}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("replay: import: %w", err)
	}
	for i := range in.Result.Calls {
		for j := range in.Result.Calls[i].hist {
			if i >= len(in.Histograms) {
				return nil, fmt.Errorf("replay: import: a histogram is missing")
			}
			h, err := hdr.Decode(in.Histograms[i][j])
			if err != nil {
				return nil, fmt.Errorf("replay: import: %w", err)
			}
			in.Result.Calls[i].hist[j] = h
		}
	}
	return in.Result, nil
}

// Merge adds up the parts of one run.
func Merge(parts []*Result) *Result {
	out := *parts[0]
	out.Calls, out.Made, out.Answered, out.Refused, out.Failed = nil, 0, 0, 0, 0
	out.Busy, out.Workers, out.Silenced, out.Dead, out.Memory = 0, 0, 0, nil, 0
	out.Behind, out.Starved, out.PerSecond, out.TroubleAt = 0, 0, 0, 0
	out.Unsendable, out.Lacking, out.Unexpected, out.Overloaded, out.Fault = 0, 0, 0, 0, nil
	out.Reactions, out.Gaps, out.CPU = nil, nil, judge.CPU{}
	type callType struct{ kind, target, method string }
	rows := map[callType]*CallResult{}
	var keys []callType
	for _, part := range parts {
		out.Seconds = max(out.Seconds, part.Seconds)
		out.Made, out.Answered, out.Refused, out.Failed = out.Made+part.Made, out.Answered+part.Answered, out.Refused+part.Refused, out.Failed+part.Failed
		out.Busy, out.Workers, out.Silenced = out.Busy+part.Busy, out.Workers+part.Workers, out.Silenced+part.Silenced
		out.Behind, out.Starved, out.PerSecond = out.Behind+part.Behind, out.Starved+part.Starved, out.PerSecond+part.PerSecond
		out.Unsendable, out.Lacking, out.Unexpected = out.Unsendable+part.Unsendable, out.Lacking+part.Lacking, out.Unexpected+part.Unexpected
		out.Cold = out.Cold && part.Cold
		out.Overloaded, out.Fault = out.Overloaded+part.Overloaded, earlier(out.Fault, part.Fault)
		if part.TroubleAt > 0 && (out.TroubleAt == 0 || part.TroubleAt < out.TroubleAt) {
			out.TroubleAt = part.TroubleAt
		}
		out.Dead, out.Memory = append(out.Dead, part.Dead...), out.Memory+part.Memory
		if part.Dial.Max > out.Dial.Max {
			out.Dial = part.Dial
		}
		if part.Ended == "interrupted" {
			out.Ended = part.Ended
		}
		out.addReactions(part)
		for _, c := range part.Calls {
			key := callType{c.NodeType, c.Target, c.Method}
			if rows[key] == nil {
				rows[key] = &CallResult{NodeType: c.NodeType, Target: c.Target, Method: c.Method, Nature: c.Nature}
				keys = append(keys, key)
			}
			rows[key].merge(&c)
		}
	}
	var all [3][]*hdr.Histogram
	for _, key := range keys {
		row := rows[key]
		row.Latency, row.Service, row.Lag = spread(row.hist[0]), spread(row.hist[1]), spread(row.hist[2])
		for j, h := range row.hist {
			all[j] = append(all[j], h)
		}
		out.Calls = append(out.Calls, *row)
	}
	out.Latency, out.Service, out.Lag = spread(all[0]...), spread(all[1]...), spread(all[2]...)
	return &out
}

// addReactions adds those of a part, and of gaps keeps the longest of each role.
func (r *Result) addReactions(part *Result) {
	for _, one := range part.Reactions {
		i := slices.IndexFunc(r.Reactions, func(have Reacted) bool {
			return have.NodeType == one.NodeType && have.When == one.When && slices.Equal(have.To, one.To)
		})
		if i < 0 {
			r.Reactions = append(r.Reactions, one)
			continue
		}
		have := &r.Reactions[i]
		have.Replies, have.Begun = have.Replies+one.Replies, have.Begun+one.Begun
		have.First, have.Last = min(have.First, one.First), max(have.Last, one.Last)
	}
	for _, one := range part.Gaps {
		i := slices.IndexFunc(r.Gaps, func(have Gap) bool { return have.Role == one.Role })
		if i < 0 {
			r.Gaps = append(r.Gaps, one)
		} else if one.Seconds > r.Gaps[i].Seconds {
			r.Gaps[i] = one
		}
	}
}

func (c *CallResult) merge(o *CallResult) {
	c.Made, c.Answered, c.Refused, c.Failed = c.Made+o.Made, c.Answered+o.Answered, c.Refused+o.Refused, c.Failed+o.Failed
	c.Retries, c.Skipped, c.Missed, c.Unsent = c.Retries+o.Retries, c.Skipped+o.Skipped, c.Missed+o.Missed, c.Unsent+o.Unsent
	c.Sent, c.Unsendable, c.Unmet = c.Sent+o.Sent, c.Unsendable+o.Unsendable, c.Unmet+o.Unmet
	c.Heeded, c.Redone = c.Heeded+o.Heeded, c.Redone+o.Redone
	c.PerSec += o.PerSec
	for j, h := range o.hist {
		c.hist[j] = merged([]*hdr.Histogram{c.hist[j], h})
	}
	said := map[string]*Said{}
	for _, list := range [][]Said{c.Errors, o.Errors} {
		for _, s := range list {
			merge(said, map[string]*Said{s.What: &s})
		}
	}
	c.Errors = sorted(said)
}
