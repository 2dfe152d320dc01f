package main

import (
	"context"

	"gleaner/input"
	"gleaner/plan/pack"
)

// packer is who fills the servers.
func packer(_ context.Context, name string) (func(pack.Problem, pack.Options) (pack.Solution, error), error) {
	if name == "built-in" {
		return pack.Solve, nil
	}
	return nil, input.Errorf("--solver", "%q is not one of built-in, highs, cbc", name)
}
