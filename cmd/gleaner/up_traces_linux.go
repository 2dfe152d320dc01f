package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gleaner/chart"
	"gleaner/input"
	"gleaner/trace/mine"
	"gleaner/trace/program"
	"gleaner/web/page"
)

// tracesBehind are the programs of the page: NAME.yaml in a directory, and the report of a replay as NAME.json.
type tracesBehind struct{ dir string }

var programName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

func (t tracesBehind) path(name, ending string) (string, error) {
	if !programName.MatchString(name) {
		return "", input.Errorf("name", "%q is not a name: small letters, digits and dashes, 40 at most", name)
	}
	return filepath.Join(t.dir, name+ending), nil
}

func (t tracesBehind) List() (names []string, err error) {
	entries, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && programName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

func (t tracesBehind) read(name string) (*program.Program, error) {
	path, err := t.path(name, ".yaml")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return program.Read(name, text)
}

func (t tracesBehind) Load(name string) (*page.Program, error) {
	p, err := t.read(name)
	if err != nil {
		return nil, err
	}
	out := &page.Program{Scales: strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Scales)), ", "), "[]"), Listing: p.Listing(), Curves: programCurves(p)}
	for _, c := range p.Coverage() {
		out.Coverage = append(out.Coverage, page.Coverage{Target: c.Target, Constant: c.Constant, Regular: c.Regular, Flow: c.Flow, Asked: c.Asked})
	}
	for i := range p.Types {
		for _, c := range p.Types[i].Calls {
			for _, a := range c.Args {
				if a.Value.Asks() {
					out.Asked = append(out.Asked, page.Asked{Type: p.Types[i].Name, Method: c.Method, Call: c.Name, Argument: a.Path, Value: a.Value.String()})
				}
			}
		}
	}
	for _, d := range p.Doubts(1000 * slices.Max(append([]int{1}, p.Scales...))) {
		out.Doubts = append(out.Doubts, d.What+": "+strings.Join(d.Formulas, " or "))
	}
	out.Replay, err = t.replayed(name)
	return out, err
}

// replayed is the report of a replay, if it is there.
func (t tracesBehind) replayed(name string) (*page.Replay, error) {
	path, err := t.path(name, ".json")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	report, err := readReplay(text)
	if err != nil {
		return nil, err
	}
	return &page.Replay{Says: report.sentence(), Panels: report.panels()}, nil
}

// readReplay reads what 'gleaner trace replay' saved as report.json.
func readReplay(text []byte) (*replayPage, error) {
	var p replayPage
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, input.Errorf("program", "is no report of a replay: %v", err)
	}
	if p.Report == nil || len(p.Runs) == 0 {
		return nil, input.Errorf("program", "is no report of a replay: it has no runs")
	}
	for _, r := range p.Runs {
		if r.Result == nil {
			return nil, input.Errorf("program", "is no report of a replay: a run has no result")
		}
	}
	return &p, nil
}

// Save keeps a program, or the report of its replay, which is JSON.
func (t tracesBehind) Save(name, text string) error {
	ending := ".yaml"
	var err error
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		ending = ".json"
		_, err = readReplay([]byte(text))
	} else {
		_, err = program.Read("program", []byte(text))
	}
	if err != nil {
		return err
	}
	if _, err := t.read(name); ending == ".json" && errors.Is(err, fs.ErrNotExist) {
		return input.Errorf("name", "no program %s is kept that this could be the replay of", name)
	}
	return t.write(name, ending, text)
}

func (t tracesBehind) write(name, ending, text string) error {
	path, err := t.path(name, ending)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// Fill overrides an argument of all calls of a method.
func (t tracesBehind) Fill(name, method, argument, value string) error {
	p, err := t.read(name)
	if err != nil {
		return err
	}
	filled, err := program.ParseTemplate(value)
	if err != nil {
		return input.Errorf("value", "%v", err)
	}
	o := mine.Overrides{Arguments: []mine.ArgRule{{Signature: mine.Signature{Method: mine.Only(method)}, Argument: argument, Value: filled}}}
	if err := o.Apply("value", p); err != nil {
		return err
	}
	text, err := p.Write()
	if err != nil {
		return err
	}
	return t.write(name, ".yaml", string(text))
}

// programCurves draw what a program does from scale 1 to a hundred times the largest that it was learned at.
func programCurves(p *program.Program) []chart.Panel {
	nodes := chart.Panel{Title: "Nodes by type", X: "scale n", Y: "nodes", LogX: true, LogY: true}
	calls := chart.Panel{Title: "Calls by type, beside those at regular intervals", X: "scale n", Y: "calls", LogX: true, LogY: true}
	largest := slices.Max(append([]int{1}, p.Scales...))
	for i := range p.Types {
		t := &p.Types[i]
		there, made := chart.Line{Name: t.Name}, chart.Line{Name: t.Name}
		for n := 1; n <= 100*largest; n = max(n+1, n*5/4) {
			if count := t.Nodes.At(n); count > 0 {
				there.X, there.Y = append(there.X, float64(n)), append(there.Y, float64(count))
			}
			if sum := t.Made(n); sum > 0 {
				made.X, made.Y = append(made.X, float64(n)), append(made.Y, sum)
			}
		}
		if len(there.X) > 0 {
			nodes.Lines = append(nodes.Lines, there)
		}
		if len(made.X) > 0 {
			calls.Lines = append(calls.Lines, made)
		}
	}
	var all []chart.Panel
	for _, panel := range []chart.Panel{nodes, calls} {
		if len(panel.Lines) > 0 {
			all = append(all, panel)
		}
	}
	return all
}

// labBehind are the experiments of the page, with the results in an index that 'gleaner reproduce --out' wrote, and the last that are in the
// cache of this user.
type labBehind struct {
	dir   string // of the index
	cache cache
}

func (l labBehind) experiments() ([]page.Experiment, error) {
	var all []page.Experiment
	for _, e := range experiments() {
		all = append(all, page.Experiment{Name: e.Name, Short: e.Short, Paper: e.Paper, Command: "gleaner reproduce " + e.Name})
	}
	if err := l.readIndex(all); err != nil {
		return nil, err
	}
	for i := range all {
		e := &all[i]
		last, found := l.cache.last(e.Name)
		if !found || len(e.Tables) > 0 && e.Size != last.Size {
			continue
		}
		e.Figures = last.Figures
		if len(e.Tables) == 0 {
			e.Size, e.At, e.Seconds, e.Command, e.Other = last.Size, last.At, last.Seconds, cmp.Or(last.Command, e.Command), last.Code != thisCode()
			for _, t := range last.Tables {
				e.Tables = append(e.Tables, page.Table{Title: t.Title, Columns: t.Columns, Rows: t.Rows, Notes: t.Notes})
			}
		}
	}
	return all, nil
}

// thisCode is the fingerprint of this binary, which takes a moment to read; "" if it cannot be read.
var thisCode = sync.OnceValue(func() string {
	code, _ := codeVersion()
	return code
})

// readIndex adds the results of the index, if there is one.
func (l labBehind) readIndex(all []page.Experiment) error {
	text, err := os.ReadFile(filepath.Join(l.dir, "index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var index struct {
		Experiments []struct {
			Name, Paper, Command, Size, Failed string
			At                                 time.Time
			Seconds                            float64
			Tables                             []page.Table
		}
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(l.dir, "index.json"), err)
	}
	for _, done := range index.Experiments {
		if i := slices.IndexFunc(all, func(e page.Experiment) bool { return e.Name == done.Name }); i >= 0 {
			e := &all[i]
			e.Paper, e.Size, e.Failed, e.At, e.Seconds, e.Tables = done.Paper, done.Size, done.Failed, done.At, done.Seconds, done.Tables
			if done.Command != "" {
				e.Command = done.Command
			}
		}
	}
	return nil
}
