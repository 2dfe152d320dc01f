//go:build !linux

package colocation

import (
	"context"
	"runtime"
)

func measure(context.Context, size, []setting, []shape) (*measurement, error) {
	return &measurement{missing: "this machine runs " + runtime.GOOS + ", and harvesting it needs Linux"}, nil
}
