package main

import (
	"context"
	"errors"

	"gleaner/input"
	"gleaner/plan/milp"
	"gleaner/plan/pack"
)

// packer is the function that fills the servers: our own engine, or a solver on PATH.
func packer(ctx context.Context, name string) (func(pack.Problem, pack.Options) (pack.Solution, error), error) {
	switch name {
	case "built-in":
		return pack.Solve, nil
	case "highs", "cbc":
		return func(p pack.Problem, o pack.Options) (pack.Solution, error) {
			s, err := milp.Solve(ctx, p, milp.Options{Solver: name, Gap: o.Gap})
			if errors.Is(err, milp.ErrMissing) || errors.Is(err, milp.ErrTime) {
				err = input.Errorf("--solver", "%v", err)
			}
			return s, err
		}, nil
	}
	return nil, input.Errorf("--solver", "%q is not one of built-in, highs, cbc", name)
}
