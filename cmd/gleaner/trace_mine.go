package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/lab/extrapolate"
	"gleaner/lab/hadoop"
	"gleaner/trace"
	"gleaner/trace/mine"
	"gleaner/trace/mine/argument"
	"gleaner/trace/mine/corpus"
)

func newTraceMine() *cobra.Command {
	var m traceMine
	cmd := &cobra.Command{
		Use:   "mine FILE...",
		Short: "Learn the program behind traces of several scales",
		Long: `Learn the program behind traces of several small scales: the types of nodes, the
loops they run, how every count follows the scale, and where every argument
comes from. With --check a larger recorded run is held against what was learned.`,
		Example: `  gleaner trace mine n003.jsonl.gz n004.jsonl.gz n006.jsonl.gz n008.jsonl.gz n012.jsonl.gz --check n026.jsonl.gz
  gleaner trace mine n0*.jsonl.gz --program wordcount.yaml`,
		Args: needFiles,
		RunE: m.run,
	}
	m.files.flags(cmd)
	cmd.Flags().StringVar(&m.check, "check", "", "a recorded larger scale to hold against what was learned")
	cmd.Flags().StringVar(&m.program, "program", "", "write the program as YAML to this file")
	cmd.Flags().StringVar(&m.override, "override", "", "a file that says better: node types by sender, values of unknown arguments; @wordcount and @kubernetes, for Hadoop's WordCount and for a Deployment and a Job on Kubernetes, come with gleaner")
	cmd.Flags().StringVar(&m.template, "template", "", "write a file for --override, with a line for each unknown argument, to this file")
	cmd.Flags().StringVar(&m.plot, "plot", "", "draw counts, intervals and the program into this directory")
	cmd.Flags().IntVar(&m.rows, "rows", 20, "print at most this many rows of a table; 0 for all")
	return cmd
}

type traceMine struct {
	files          traceFiles
	check, program string
	override, plot string
	template       string
	rows           int
	without        func(sender string) bool
}

func (m *traceMine) run(cmd *cobra.Command, args []string) error {
	if err := m.files.check(append(slices.Clone(args), m.check)); err != nil {
		return err
	}
	if m.rows < 0 {
		return input.Errorf("--rows", "%d is negative", m.rows)
	}
	overrides, err := m.readOverrides()
	if err != nil {
		return err
	}
	m.without = overrides.LeavesOut
	logs := corpus.New()
	var bad []error // mistakes in the input that leave something to work with
	for _, path := range args {
		run, err := m.read(cmd, logs, path)
		if run == nil {
			return err
		}
		bad = append(bad, err)
		logs.Learn(run)
	}
	model, err := overrides.Learn(cmd.Context(), m.override, logs)
	if err != nil {
		return err
	}
	bad = append(bad, model.Conflicts()...)
	report := model.Report()
	if m.check != "" {
		run, err := m.read(cmd, logs, m.check)
		if run == nil {
			return err
		}
		bad = append(bad, err)
		report.Check = model.Check(run)
		report.CountsExact = report.Check.Exact()
		if err := m.drawIntervals(cmd, model, run); err != nil {
			return err
		}
	}
	if err := m.save(cmd, model); err != nil {
		return err
	}
	if wantJSON(cmd) {
		err = printJSON(cmd, report)
	} else {
		err = m.print(cmd.OutOrStdout(), report, model)
	}
	return errors.Join(err, errors.Join(bad...))
}

// save writes the program and the pictures the user asked for.
func (m *traceMine) save(cmd *cobra.Command, model *mine.Model) error {
	if m.plot != "" {
		if err := plotTrace(cmd, m.plot, model); err != nil {
			return err
		}
	}
	return cmp.Or(saveAs("--program", m.program, model.Program.Write), saveAs("--template", m.template, model.Template))
}

// saveAs writes a text to the file that a flag names, if any.
func saveAs(flag, path string, text func() ([]byte, error)) error {
	if path == "" {
		return nil
	}
	out, err := text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, out, 0o644); err != nil {
		return input.Errorf(flag, "%v", err)
	}
	return nil
}

func (m *traceMine) drawIntervals(cmd *cobra.Command, model *mine.Model, run *corpus.Recording) error {
	if m.plot == "" {
		return nil
	}
	return plotIntervals(cmd, m.plot, model, run)
}

func (m *traceMine) readOverrides() (*mine.Overrides, error) {
	if m.override == "" {
		return &mine.Overrides{}, nil
	}
	if own, ok := strings.CutPrefix(m.override, "@"); ok {
		text := map[string][]byte{"wordcount": hadoop.WordCount, "kubernetes": extrapolate.KubernetesJob}[own]
		if text == nil {
			return nil, input.Errorf("--override", "%q does not come with gleaner; @wordcount and @kubernetes do", m.override)
		}
		return mine.ReadOverrides(m.override, text)
	}
	text, err := readInput(m.override)
	if err != nil {
		return nil, err
	}
	return mine.ReadOverrides(m.override, text)
}

// read reads one run. A bad line ends it; what came before is kept, and the
// run is nil only when nothing did.
func (m *traceMine) read(cmd *cobra.Command, logs *corpus.Corpus, path string) (*corpus.Recording, error) {
	run := logs.Begin(path)
	bar := newProgress(cmd, "reading "+path, 0)
	defer bar.finish()
	err := m.files.each(cmd.Context(), path, func(c *trace.Call) error {
		bar.add(1)
		if !m.without(c.Sender) {
			run.Add(c)
		}
		return nil
	})
	if err != nil && (!input.Is(err) || len(run.Calls) == 0) {
		return nil, err
	}
	if run.Scale == 0 {
		return nil, input.Errorf(path, "its scale is not known: not in its records, not in its name (n026...); give --scale %s=N", path)
	}
	return run, err
}

func (m *traceMine) print(w io.Writer, r *mine.Report, model *mine.Model) error {
	t := newTable("node type", ">calls", ">loops", "real time", "nodes by scale")
	for _, ty := range r.NodeTypes {
		t.row(ty.Name, strconv.Itoa(ty.Calls), strconv.Itoa(ty.Loops), strings.Join(ty.Realtime, " "), byScale(ty.NodesByScale))
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = newTable("arguments of calls to", ">total", ">constant", ">regular", ">flow", ">unknown", ">known")
	targets := model.Targets()
	names := make([]string, 0, len(targets))
	for name := range targets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		argumentsRow(t, name, targets[name])
	}
	argumentsRow(t, "all", r.Arguments)
	if err := t.print(w); err != nil {
		return err
	}
	if err := m.printUnknown(w, r.Unknown); err != nil {
		return err
	}
	m.printDoubts(w, r)
	if r.Check != nil {
		return m.printCheck(w, r)
	}
	return nil
}

// printDoubts lists the counts that are not sure, and those that no formula gives.
func (m *traceMine) printDoubts(w io.Writer, r *mine.Report) {
	if len(r.Ambiguous)+len(r.Varying)+len(r.Throttled)+len(r.Repeats) > 0 {
		fmt.Fprintln(w)
	}
	for _, a := range r.Ambiguous {
		what := a.What
		if a.NodeType != "" {
			what = strings.Join(strings.Fields(fmt.Sprintf("%s of %s %s %s", a.What, a.NodeType, a.Target, a.Method)), " ")
		}
		said := strings.Trim(strings.Join(a.Formulas, " or ")+"; "+a.Why, "; ")
		fmt.Fprintf(w, "ambiguous: %s: %s; record n = %d to tell\n", what, said, a.Next)
	}
	for _, t := range r.Throttled {
		fmt.Fprintf(w, "throttled: %s %s %s: %g ms apart, from n = %d on\n", t.NodeType, t.Target, t.Method, t.Interval, t.From)
	}
	for _, p := range r.Repeats {
		fmt.Fprintf(w, "repeated: %s and %s, both at n = %d, have %s of their intervals within 10%% of each other's\n", p.Files[0], p.Files[1], p.Scale, inPercent(p.Intervals))
	}
	for _, v := range r.Varying {
		fmt.Fprintf(w, "varying: calls of %s %s %s: %s\n", v.NodeType, v.Target, v.Method, v.Why)
	}
}

func argumentsRow(t *table, name string, a argument.Known) {
	t.row(name, strconv.Itoa(a.Total), strconv.Itoa(a.Constant), strconv.Itoa(a.Regular), strconv.Itoa(a.Flow), strconv.Itoa(a.Unknown),
		inPercent(float64(a.Total-a.Unknown)/float64(max(a.Total, 1))))
}

func (m *traceMine) printUnknown(w io.Writer, unknown []mine.Unknown) error {
	if len(unknown) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable("unknown argument", "of", "example", "filled by")
	for i, u := range unknown {
		if m.rows > 0 && i == m.rows {
			t.row(fmt.Sprintf("... and %d more (--rows 0)", len(unknown)-i), "", "", "")
			break
		}
		t.row(u.Argument, u.NodeType+" "+u.Call, brief(u.Example, 40), brief(u.Generator, 60))
	}
	return t.print(w)
}

func (m *traceMine) printCheck(w io.Writer, r *mine.Report) error {
	c := r.Check
	fmt.Fprintf(w, "\ncheck: %d calls recorded, %d predicted; sequences %s, arguments %s, intervals within 10%% %s (at best %s); counts exact: %v\n\n",
		c.CallsExpected, c.CallsPredicted, inPercent(c.SequenceMatch), inPercent(c.ArgumentsMatch), inPercent(c.Intervals), inPercent(c.AtBest), r.CountsExact)
	if err := m.printSequences(w, c.Sequences); err != nil {
		return err
	}
	t := newTable("node type", "target", "call", "count is", ">recorded", ">predicted", ">arguments", ">matched", "why not")
	for i, row := range c.ByType {
		if m.rows > 0 && i == m.rows {
			t.row(fmt.Sprintf("... and %d more (--rows 0)", len(c.ByType)-i), "", "", "", "", "", "", "", "")
			break
		}
		t.row(row.NodeType, row.Target, row.Method, row.Nature, strconv.Itoa(row.Expected), strconv.Itoa(row.Predicted), strconv.Itoa(row.Arguments),
			inPercent(float64(row.ArgumentsMatched)/float64(max(row.Arguments, 1))), row.Why)
	}
	return t.print(w)
}

// printSequences lists the types whose calls were not all made as predicted.
func (m *traceMine) printSequences(w io.Writer, all []mine.Sequence) error {
	t, rows := newTable("sequence of", ">nodes", ">recorded", ">predicted", ">in common"), 0
	for _, q := range all {
		if q.Common < max(q.Expected, q.Predicted) && (m.rows == 0 || rows < m.rows) {
			t.row(q.NodeType, strconv.Itoa(q.Nodes), strconv.Itoa(q.Expected), strconv.Itoa(q.Predicted), strconv.Itoa(q.Common))
			rows++
		}
	}
	if rows == 0 {
		return nil
	}
	defer fmt.Fprintln(w)
	return t.print(w)
}

func inPercent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

func byScale(m map[string]int) string {
	scales := make([]int, 0, len(m))
	for s := range m {
		n, _ := strconv.Atoi(s)
		scales = append(scales, n)
	}
	slices.Sort(scales)
	out := make([]string, len(scales))
	for i, n := range scales {
		out[i] = fmt.Sprintf("%d:%d", n, m[strconv.Itoa(n)])
	}
	return strings.Join(out, " ")
}
