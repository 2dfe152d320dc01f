package cassandra

import (
	"testing"

	"gleaner/kv"
	"gleaner/kv/kvtest"
)

func TestConformance(t *testing.T) {
	c := newCluster(t, 1, "")
	kvtest.Run(t, func(t testing.TB) kv.Store { return openNew(t, c) })
}
