package pack_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/plan/pack"
)

// TestScenarios packs the problems of testdata/scenario: resources, then servers,
// purchases and items with a price and an amount of each resource.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenario", func(t *testing.T, path string) {
		var p pack.Problem
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "given":
				p = readProblem(t, d.Input)
				return ""
			}
			s, err := pack.Solve(p, pack.Options{})
			if err != nil {
				return err.Error() + "\n"
			}
			return show(p, s)
		})
	})
}

// readProblem reads one thing a line: its kind and name, its price or, for a load,
// its amount, and name=amount of resources. A load with choice=NAME is one option of
// that choice.
func readProblem(t *testing.T, text string) pack.Problem {
	var p pack.Problem
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "resources" {
			p.Resources = f[1:]
			continue
		}
		number := func(s string) float64 {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatalf("%q: %v", strings.TrimSpace(line), err)
			}
			return x
		}
		amounts, choice := make([]float64, len(p.Resources)), ""
		for _, pair := range f[3:] {
			name, value, _ := strings.Cut(pair, "=")
			if name == "choice" {
				choice = value
				continue
			}
			amounts[index(t, p.Resources, name)] = number(value)
		}
		switch f[0] {
		case "server":
			p.Servers = append(p.Servers, pack.Server{Name: f[1], Cost: number(f[2]), Capacity: amounts})
		case "buy":
			p.Purchases = append(p.Purchases, pack.Purchase{Name: f[1], Cost: number(f[2]), Change: amounts})
		case "load":
			p.Loads = append(p.Loads, pack.Load{Name: f[1], Amount: number(f[2]), Demand: amounts})
			if choice != "" {
				p.Choices = option(p.Choices, choice, len(p.Loads)-1)
			}
		}
	}
	return p
}

// option adds a load as an option of a choice.
func option(choices []pack.Choice, name string, load int) []pack.Choice {
	k := slices.IndexFunc(choices, func(c pack.Choice) bool { return c.Name == name })
	if k < 0 {
		k = len(choices)
		choices = append(choices, pack.Choice{Name: name})
	}
	choices[k].Options = append(choices[k].Options, pack.Option{Loads: []int{load}})
	return choices
}

func index(t *testing.T, names []string, name string) int {
	for k, n := range names {
		if n == name {
			return k
		}
	}
	t.Fatalf("no resource %q", name)
	return -1
}

// show prints a solution, one kind of server a line.
func show(p pack.Problem, s pack.Solution) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$%.10g, no solution below $%.10g\n", s.Cost, s.LowerBound)
	for _, f := range s.Fillings {
		fmt.Fprintf(&b, "%d x %s at $%.10g:", f.Count, f.Server, f.Cost)
		for i, y := range f.Loads {
			if y > 0 {
				fmt.Fprintf(&b, " %.4g %s", y, p.Loads[i].Name)
			}
		}
		for k, n := range f.Bought {
			if n > 0 {
				fmt.Fprintf(&b, " +%d %s", n, p.Purchases[k].Name)
			}
		}
		fmt.Fprintf(&b, " (bottleneck: %s)\n", f.Bottleneck)
	}
	return b.String()
}
