package mine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/program"
	"gleaner/trace/tracetest"
)

// A recording is what one file holds.
type recording struct {
	scale int
	calls []trace.Call
}

// TestAnyRecordings mines, checks, writes, reads back and grows recordings of
// random programs, of random calls and of real systems, all of them damaged: the
// answer must be a result or an input error.
func TestAnyRecordings(t *testing.T) {
	real := cuts(t)
	tracetest.Cases(t, 300, 6000, func(seed int) error {
		runs := rapid.Custom(func(t *rapid.T) []recording { return drawRecordings(t, real) }).Example(seed)
		if err := survive(runs, seed); !input.Is(err) {
			return err
		}
		return nil
	})
}

// survive does all that the commands do with recordings. The last one is checked
// against what was learned from the others.
func survive(runs []recording, seed int) error {
	logs := corpus.New()
	for _, r := range runs[:len(runs)-1] {
		run, err := reread(logs, r)
		if err != nil {
			return err
		}
		logs.Learn(run)
	}
	m, err := Learn(context.Background(), logs)
	if err != nil {
		return err
	}
	m.Conflicts()
	m.Targets()
	m.Curves()
	m.Diagram()
	held, err := reread(logs, runs[len(runs)-1])
	if err != nil {
		return err
	}
	report := m.Report()
	report.Check = m.Check(held)
	m.Intervals(held)
	if _, err := json.Marshal(report); err != nil { // which has no way to write what is not a number
		return fmt.Errorf("the report: %w", err)
	}
	if err := sound(report); err != nil {
		return err
	}
	return growsAgain(m.Program, seed)
}

// reread writes a recording and reads it as a file of its own.
func reread(logs *corpus.Corpus, r recording) (*corpus.Recording, error) {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	for i := range r.calls {
		if err := w.Write(&r.calls[i]); err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("n%03d.jsonl", r.scale)
	run, in := logs.Begin(name), trace.NewReader(name, &file)
	for {
		call, err := in.Next()
		if err == io.EOF && len(run.Calls) == 0 {
			return nil, input.Errorf(name, "holds no calls")
		}
		if err == io.EOF {
			return run, nil
		}
		if err != nil {
			return nil, err
		}
		run.Add(call)
	}
}

// sound is an error for counts below zero and shares outside 0 to 1.
func sound(r *Report) error {
	for _, t := range r.NodeTypes {
		for n, nodes := range t.NodesByScale {
			if nodes < 0 {
				return fmt.Errorf("%d nodes of %s at n = %s", nodes, t.Name, n)
			}
		}
	}
	for _, a := range r.Ambiguous {
		if a.Next < 0 {
			return fmt.Errorf("to record n = %d would tell %+v", a.Next, a)
		}
	}
	c := r.Check
	for _, row := range c.ByType {
		if row.Expected < 0 || row.Predicted < 0 || row.ArgumentsMatched < 0 || row.ArgumentsMatched > row.Arguments {
			return fmt.Errorf("a row of the check says %+v", row)
		}
	}
	for _, s := range c.Sequences {
		if s.Common > min(s.Expected, s.Predicted) {
			return fmt.Errorf("a sequence of the check says %+v", s)
		}
	}
	for _, share := range []float64{c.SequenceMatch, c.ArgumentsMatch, c.Intervals, c.AtBest} {
		if share < 0 || share > 1 {
			return fmt.Errorf("a share of %g in the check", share)
		}
	}
	return nil
}

// growsAgain writes a program and reads it: the same bytes, and the same traffic
// at every scale.
func growsAgain(p *program.Program, seed int) error {
	text, err := p.Write()
	if err != nil {
		return err
	}
	again, err := program.Read("mined.yaml", text)
	if err != nil {
		return fmt.Errorf("what was mined cannot be read: %v\n%s", err, text)
	}
	if twice, err := again.Write(); err != nil || !bytes.Equal(text, twice) {
		return fmt.Errorf("read and written again (%v):\n%s\nwas\n%s", err, twice, text)
	}
	largest := slices.Max(p.Scales)
	for _, scale := range []int{1, 2, largest, 3 * largest, 1000, 100_000} {
		a, err := traffic(p, scale, seed)
		if err != nil {
			return err
		}
		b, err := traffic(again, scale, seed)
		if err != nil {
			return err
		}
		if a != b {
			return fmt.Errorf("at n = %d, the program read back makes\n%s\nand the one written\n%s", scale, b, a)
		}
	}
	return nil
}

// mostGrown is how many calls of a scale are compared.
const mostGrown = 300

// traffic is the first calls at a scale, as a file that can be read.
func traffic(p *program.Program, scale, seed int) (string, error) {
	s, err := grow.Resolve(p, grow.Setting{Scale: scale})
	if err != nil {
		if input.Is(err) {
			return err.Error(), nil
		}
		return "", err
	}
	for i := range p.Types {
		if n := s.Count(&p.Types[i]); n < 0 {
			return "", fmt.Errorf("%d nodes of %s at n = %d", n, p.Types[i].Name, scale)
		}
	}
	p.Doubts(scale)
	var file bytes.Buffer
	w, made := trace.NewWriter(&file), 0
	for c := range grow.Calls(p, s, rand.New(rand.NewPCG(uint64(seed), 0))) {
		if err := w.Write(c); err != nil {
			return "", err
		}
		if made++; made == mostGrown {
			break
		}
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	text := file.String()
	calls, err := trace.NewReader("grown.jsonl", &file).ReadAll()
	if err != nil || len(calls) != made {
		return "", fmt.Errorf("at n = %d, of %d calls grown %d can be read (%v):\n%s", scale, made, len(calls), err, text)
	}
	return text, nil
}
