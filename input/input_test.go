package input

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorsSayWhere(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{Linef("cpu.csv", 7, "cpu is %q, not a number", "x"), `cpu.csv:7: cpu is "x", not a number`},
		{Errorf("--window", "must be positive"), "--window: must be positive"},
		{Errorf("", "unknown command"), "unknown command"},
		{Errors{{Where: "a.xml", Line: 1, Msg: "one"}, {Where: "a.xml", Line: 2, Msg: "two"}}, "a.xml:1: one\na.xml:2: two"},
	} {
		if tc.err.Error() != tc.want {
			t.Errorf("got %q, want %q", tc.err, tc.want)
		}
		if !Is(tc.err) || !Is(fmt.Errorf("import: %w", tc.err)) {
			t.Errorf("%q is not recognised as bad input", tc.err)
		}
	}
	if Is(errors.New("disk full")) || Is(nil) {
		t.Error("a failure of the world passes for bad input")
	}
}
