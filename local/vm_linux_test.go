package local

import (
	"testing"

	"gleaner/lab/guest"
)

// Tasks run, are killed and counted as well on a kernel that has control groups of version 2 alone.
func TestVM(t *testing.T) {
	guest.Again(t, "BurstKills|WhoTheyAre|UsedAgain|AreSwept")
}
