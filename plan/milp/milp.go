// Package milp solves packing problems with an external solver: HiGHS or CBC,
// run as a process on a model file.
//
// It is for a second opinion. The model is the paper's (FAST'12 Figure 4): whole
// numbers for every single server, no fillings. So it shares nothing with pack's own
// engine but the problem, and it takes seconds for a handful of servers and forever
// for a hundred.
package milp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gleaner/plan/pack"
)

// Options are which solver to run, and for how long.
type Options struct {
	Solver    string        // "highs" or "cbc", found on PATH; "": the first of these that is there
	Gap       float64       // stop when the proven gap is at most this
	TimeLimit time.Duration // 0 is a minute
}

// ErrMissing is wrapped by the error of Solve when the solver is not on PATH.
var ErrMissing = errors.New("solver is not installed")

// ErrTime is wrapped by the error of Solve when the solver has found no solution
// within the time limit.
var ErrTime = errors.New("no solution within the time limit")

// A solver runs one program on a model file and reads its answer.
type solver struct {
	name    string
	install string
	run     func(ctx context.Context, program, dir string, o Options) (answer, error)
}

var solvers = []solver{
	{"highs", "apt-get install highs (Debian 13), brew install highs, or highs.dev", runHighs},
	{"cbc", "apt-get install coinor-cbc, or brew install cbc", runCBC},
}

// An answer is a solver's result for a model.
type answer struct {
	cost, bound float64
	values      map[string]float64 // by variable; those not named are zero
}

// Solve packs by the external solver. Its lower bound is the solver's.
func Solve(ctx context.Context, p pack.Problem, o Options) (pack.Solution, error) {
	s, program, err := find(o.Solver)
	if err != nil {
		return pack.Solution{}, err
	}
	if o.TimeLimit == 0 {
		o.TimeLimit = time.Minute
	}
	return solve(ctx, s, program, p, o)
}

// find looks for the solver of a name, or for any.
func find(name string) (solver, string, error) {
	var missing []string
	for _, s := range solvers {
		if name != "" && name != s.name {
			continue
		}
		if program, err := exec.LookPath(s.name); err == nil {
			return s, program, nil
		}
		missing = append(missing, fmt.Sprintf("%s is not on PATH: %s", s.name, s.install))
	}
	if missing == nil {
		return solver{}, "", fmt.Errorf("milp: unknown solver %q: choose highs or cbc", name)
	}
	return solver{}, "", fmt.Errorf("milp: %w: %s", ErrMissing, strings.Join(missing, "; "))
}

func solve(ctx context.Context, s solver, program string, p pack.Problem, o Options) (pack.Solution, error) {
	n, err := enough(p)
	if err != nil {
		return pack.Solution{}, err
	}
	dir, err := os.MkdirTemp("", "gleaner-milp-")
	if err != nil {
		return pack.Solution{}, fmt.Errorf("milp: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "model.lp"), model(p, n), 0o600); err != nil {
		return pack.Solution{}, fmt.Errorf("milp: %w", err)
	}
	a, err := s.run(ctx, program, dir, o)
	if err != nil {
		return pack.Solution{}, fmt.Errorf("milp: %s: %w", s.name, err)
	}
	servers, taken := contents(p, n, a.values)
	return p.Assemble(servers, taken, a.bound)
}

// enough is a number of servers that a cheapest solution does not exceed: any
// solution, here a quick one, bounds the cost, and every server costs at least as
// much as the cheapest bare one, or is one of those in stock that cost nothing.
func enough(p pack.Problem) (int, error) {
	quick, err := pack.Solve(p, pack.Options{NodeLimit: 1})
	if err != nil {
		return 0, err
	}
	cheapest, free, stocks := math.Inf(1), 0.0, p.Stocks()
	for k, s := range p.Servers {
		if s.Cost == 0 && !math.IsInf(stocks[k], 1) {
			free += stocks[k]
		} else {
			cheapest = min(cheapest, s.Cost)
		}
	}
	if cheapest == 0 {
		return quick.Servers(), nil
	}
	return int(quick.Cost/cheapest + free + 1e-6), nil
}

// run runs the program in dir and returns its output.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out[max(0, len(out)-500):]))
	}
	return string(out), nil
}

func runCBC(ctx context.Context, program, dir string, o Options) (answer, error) {
	out, err := run(ctx, dir, program, "model.lp", "-timeMode", "elapsed", "-sec", seconds(o.TimeLimit),
		"-ratioGap", fmt.Sprint(o.Gap), "-solve", "-solution", "answer")
	if err != nil {
		return answer{}, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "answer"))
	if err != nil {
		return answer{}, err
	}
	return readCBC(string(text), out)
}

// readCBC reads a solution file of CBC: its first line says how it ended, each
// further one is an index, a variable, a value and a reduced cost.
func readCBC(text, log string) (answer, error) {
	status, rest, _ := strings.Cut(text, "\n")
	how, cost, ok := strings.Cut(status, "objective value")
	if !ok || strings.Contains(how, "nfeasible") || strings.Contains(how, "no integer solution") {
		return answer{}, fmt.Errorf("%w: %s", ErrTime, strings.TrimSpace(status))
	}
	a := answer{values: map[string]float64{}}
	var err error
	if a.cost, err = strconv.ParseFloat(strings.TrimSpace(cost), 64); err != nil {
		return answer{}, fmt.Errorf("reading its objective: %w", err)
	}
	a.bound = a.cost
	if low, ok := after(log, "Lower bound:"); ok {
		a.bound = low
	}
	for line := range strings.Lines(rest) {
		if f := strings.Fields(strings.TrimLeft(line, "* ")); len(f) >= 3 {
			if a.values[f[1]], err = strconv.ParseFloat(f[2], 64); err != nil {
				return answer{}, fmt.Errorf("reading its solution: %w", err)
			}
		}
	}
	return a, nil
}

func runHighs(ctx context.Context, program, dir string, o Options) (answer, error) {
	options := fmt.Sprintf("mip_rel_gap = %g\nmip_abs_gap = 1e-6\ntime_limit = %s\n", o.Gap, seconds(o.TimeLimit))
	if err := os.WriteFile(filepath.Join(dir, "options"), []byte(options), 0o600); err != nil {
		return answer{}, err
	}
	out, err := run(ctx, dir, program, "--options_file", "options", "--solution_file", "answer", "--model_file", "model.lp")
	if err != nil {
		return answer{}, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "answer"))
	if err != nil {
		return answer{}, err
	}
	return readHighs(string(text), out)
}

// readHighs reads a solution file of HiGHS: columns are between their heading and
// that of the rows, a variable and a value a line.
func readHighs(text, log string) (answer, error) {
	cost, ok := after(text, "\nObjective")
	_, columns, found := strings.Cut(text, "# Columns")
	columns, _, _ = strings.Cut(columns, "# Rows")
	if !ok || !found {
		status, _, _ := strings.Cut(strings.TrimPrefix(text, "Model status\n"), "\n")
		return answer{}, fmt.Errorf("%w: %s", ErrTime, status)
	}
	a := answer{cost: cost, bound: cost, values: map[string]float64{}}
	if low, ok := after(log, "Dual bound"); ok {
		a.bound = min(low, cost)
	}
	for line := range strings.Lines(columns) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return answer{}, fmt.Errorf("reading its solution: %w", err)
			}
			a.values[name] = x
		}
	}
	return a, nil
}

// after reads the number that follows the last occurrence of a label.
func after(text, label string) (float64, bool) {
	k := strings.LastIndex(text, label)
	if k < 0 {
		return 0, false
	}
	f := strings.Fields(text[k+len(label):])
	if len(f) == 0 {
		return 0, false
	}
	x, err := strconv.ParseFloat(f[0], 64)
	return x, err == nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
