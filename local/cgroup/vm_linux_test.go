package cgroup

import (
	"testing"

	"gleaner/lab/guest"
)

// Whatever the kernel at hand has, all holds on one that has control groups of version 2 alone.
func TestVM(t *testing.T) { guest.Again(t, "Kill|Groups|Memory|PageCache|Processes|Sweep|Isolates") }
