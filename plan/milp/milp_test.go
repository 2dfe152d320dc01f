package milp_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"gleaner/plan/milp"
	"gleaner/plan/pack"
	"gleaner/plan/pack/packtest"
)

// TestBuiltInEngineAgrees packs problems too large to enumerate both ways.
// What the external solver has proven bounds what the built-in engine may say.
func TestBuiltInEngineAgrees(t *testing.T) {
	for _, solver := range []string{"cbc", "highs"} {
		t.Run(solver, func(t *testing.T) {
			if _, err := exec.LookPath(solver); err != nil {
				t.Skipf("%s is not on PATH", solver)
			}
			compared, proven := 0, 0
			for seed := uint64(0); compared < 25; seed++ {
				p := packtest.Random(rand.New(rand.NewPCG(seed, 1)), 5, 12)
				ours, err := pack.Solve(p, pack.Options{})
				if err != nil {
					continue // fits no server
				}
				compared++
				theirs, err := milp.Solve(context.Background(), p, milp.Options{Solver: solver, TimeLimit: time.Second})
				if errors.Is(err, milp.ErrTime) {
					continue
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if theirs.Optimal {
					proven++
				}
				if ours.LowerBound > theirs.Cost+1e-3 || theirs.LowerBound > ours.Cost+1e-3 {
					t.Errorf("seed %d: ours costs %v and no less than %v; %s has %v and no less than %v",
						seed, ours.Cost, ours.LowerBound, solver, theirs.Cost, theirs.LowerBound)
				}
			}
			t.Logf("%d problems, %d of them solved to the end by %s", compared, proven, solver)
		})
	}
}
