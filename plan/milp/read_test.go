package milp

import (
	"errors"
	"testing"
)

func TestReadCBC(t *testing.T) {
	a, err := readCBC("Stopped on time - objective value 534706.00000000\n      3 i0_2   7   0\n**    9 s0_1   1   4600\n",
		"Result - Stopped on time limit\n\nObjective value:                534706.00000000\nLower bound:                    533340.000\nGap: 0.00\n")
	if err != nil || a.cost != 534706 || a.bound != 533340 || a.values["i0_2"] != 7 || a.values["s0_1"] != 1 {
		t.Errorf("read %+v, %v", a, err)
	}
	for _, text := range []string{"", "Infeasible - objective value 0\n", "Stopped on time (no integer solution - continuous used) - objective value 12\n"} {
		if _, err := readCBC(text, ""); !errors.Is(err, ErrTime) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadHighs(t *testing.T) {
	a, err := readHighs("Model status\nTime limit reached\n\n# Primal solution values\nFeasible\nObjective 12.5\n# Columns 2\nz0 5\ny0 -0\n# Rows 1\nc1 0\n",
		"  Primal bound      12.5\n  Dual bound        11.25\n")
	if err != nil || a.cost != 12.5 || a.bound != 11.25 || a.values["z0"] != 5 {
		t.Errorf("read %+v, %v", a, err)
	}
	if _, err := readHighs("Model status\nTime limit reached\n\n# Primal solution values\nNone\n", ""); !errors.Is(err, ErrTime) {
		t.Errorf("no solution: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("Optimal - objective value 12.5\n      0 y   0   10\n", "Lower bound: 12\n")
	f.Add("Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 12.5\n# Columns 1\ny 0\n# Rows 0\n", "Dual bound 12")
	f.Fuzz(func(t *testing.T, text, log string) {
		for _, read := range []func(string, string) (answer, error){readCBC, readHighs} {
			if a, err := read(text, log); err == nil && a.values == nil {
				t.Error("neither values nor an error")
			}
		}
	})
}
