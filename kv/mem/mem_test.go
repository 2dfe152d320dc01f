package mem_test

import (
	"testing"

	"gleaner/kv"
	"gleaner/kv/kvtest"
	"gleaner/kv/mem"
)

func TestConformance(t *testing.T) {
	kvtest.Run(t, func(testing.TB) kv.Store { return mem.New() })
}
