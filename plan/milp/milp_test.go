package milp_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gleaner/plan/milp"
	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// TestBuiltInEngineAgrees solves problems that are too large to enumerate with both
// engines. The bounds that the external solver has proven must hold for the built-in
// engine. GLEANER_LONG=1 compares more, and gives both more time.
func TestBuiltInEngineAgrees(t *testing.T) {
	problems, limit, nodes := 12, time.Second, 30
	if os.Getenv("GLEANER_LONG") != "" {
		problems, limit, nodes = 200, 20*time.Second, pack.DefaultNodes
	}
	for _, solver := range []string{"cbc", "highs"} {
		t.Run(solver, func(t *testing.T) {
			if _, err := exec.LookPath(solver); err != nil {
				t.Skipf("%s is not on PATH", solver)
			}
			compared, ended := 0, 0
			for seed := uint64(0); compared < problems; seed++ {
				p := packtest.Random(rand.New(rand.NewPCG(seed, 1)), 5, 12)
				if seed%2 == 1 {
					p = packtest.Random(rand.New(rand.NewPCG(seed, 1)), 3, 4) // little enough for some to fit the limits
					packtest.Limit(rand.New(rand.NewPCG(seed, 2)), &p)
				}
				ours, err := pack.Solve(p, pack.Options{NodeLimit: nodes})
				if err != nil {
					continue // fits no server, or not within the limits
				}
				compared++
				theirs, err := milp.Solve(context.Background(), p, milp.Options{Solver: solver, TimeLimit: limit})
				if errors.Is(err, milp.ErrTime) {
					continue
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if theirs.Optimal {
					ended++
				}
				if ours.LowerBound > theirs.Cost+1e-3 || theirs.LowerBound > ours.Cost+1e-3 {
					t.Errorf("seed %d: ours costs %v and no less than %v; %s has %v and no less than %v",
						seed, ours.Cost, ours.LowerBound, solver, theirs.Cost, theirs.LowerBound)
				}
			}
			t.Logf("%d problems, %d of them solved to the end by %s", compared, ended, solver)
		})
	}
}

func TestMissingSolverSaysHowToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for solver, want := range map[string]string{"cbc": "coinor-cbc", "highs": "brew install highs", "": "coinor-cbc", "cplex": "choose highs or cbc"} {
		_, err := milp.Solve(context.Background(), packtest.Datacenter(0.03, packtest.TableOne), milp.Options{Solver: solver})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("solver %q: %v does not mention %q", solver, err, want)
		}
		if missing := errors.Is(err, milp.ErrMissing); missing != (solver != "cplex") {
			t.Errorf("solver %q: %v: missing is %v", solver, err, missing)
		}
	}
}

func TestCancelStopsTheSolver(t *testing.T) {
	if _, err := exec.LookPath("cbc"); err != nil {
		t.Skip("cbc is not on PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	p := packtest.Datacenter(0.3, packtest.Mixed) // hours of work for the model over single servers
	_, err := milp.Solve(ctx, p, milp.Options{Solver: "cbc", TimeLimit: time.Hour})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v after a cancel", err)
	}
}
