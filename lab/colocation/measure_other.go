//go:build !linux

package colocation

import (
	"context"
	"runtime"
)

func measure(_ context.Context, size size, _ []setting, _ []shape, _ float64, _ func(done, of int)) (*measurement, error) {
	return &measurement{size: size, missing: "this machine runs " + runtime.GOOS + ", and harvesting it needs Linux"}, nil
}
