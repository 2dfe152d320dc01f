package replay

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestComplaints: errors that differ only in numbers and identifiers are counted as one.
func TestComplaints(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("call: %w", context.DeadlineExceeded), "no reply in time"},
		{errors.New("node 12 of 0x1f\nat Server.java"), "node # of #x#f"},
		{errors.New("no storage DS-5c0b7a1e-0d2f-4c3b-9e1a-77aa88bb99cc of 550E8400-E29B-41D4-A716-446655440000"), "no storage DS-# of #"},
		{errors.New("lease 694d8f2b1c3a not found"), "lease # not found"},
	} {
		if got := complaint(tc.err); got != tc.want {
			t.Errorf("%q is counted as %q, want %q", tc.err, got, tc.want)
		}
	}
}
