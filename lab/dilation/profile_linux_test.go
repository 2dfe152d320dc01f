package dilation

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Every method distinguishes a job that computes from one that sleeps, on real
// processes that share one core. The result counts only if no other process used the
// machine meanwhile.
func TestProfilesOfRealProcesses(t *testing.T) {
	var wrong []string
	b := &Bench{Cores: 1, Std: func(kind string, _ int64) []string {
		if kind == "cpu" {
			return []string{"sh", "-c", "while :; do :; done"}
		}
		return []string{"sleep", "600"}
	}}
	computes := []string{"sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"}
	sleeps := []string{"sleep", "0.1"}
	for _, method := range []string{Probe, Regression} {
		o := ProfileOptions{Method: method, Copies: 2, Tolerance: 0.05, Least: 1, Most: 1}
		busy, err := b.Profile(t.Context(), computes, o)
		if err != nil {
			t.Fatal(err)
		}
		idle, err := b.Profile(t.Context(), sleeps, o)
		if err != nil {
			t.Fatal(err)
		}
		if busy.Alone <= 0 || busy.Rounds != 1 {
			t.Errorf("%s: %+v", method, busy)
		}
		if busy.Load[0].Share <= idle.Load[0].Share {
			wrong = append(wrong, fmt.Sprintf("%s: computing loads %+v, sleeping %+v", method, busy.Load, idle.Load))
		}
		if err := b.Machine().Check(busy.Vector()); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	p, err := b.Profile(t.Context(), computes, ProfileOptions{Method: Identical, Copies: 2, Tolerance: 0.05, Least: 1, Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p.Other == nil || p.Tight || p.IO >= 0 && p.Told == "" {
		t.Errorf("identical: %+v", p)
	}
	if p.Told != "" && p.Load[0].Share < *p.Other {
		wrong = append(wrong, fmt.Sprintf("the kernel saw it on a core for %.2f of its time, yet the lower root %v was taken", p.CPU, p.Load))
	}
	var failed *exec.ExitError
	if _, err := b.Profile(t.Context(), []string{"false"}, ProfileOptions{Method: Probe, Least: 1, Most: 1}); !errors.As(err, &failed) {
		t.Errorf("a command that fails: %v", err)
	}
	if len(wrong) > 0 && b.Disturbed > 0 {
		t.Skipf("others used this machine in %d of %d measurements: %s", b.Disturbed, b.Rounds, strings.Join(wrong, "; "))
	}
	for _, w := range wrong {
		t.Error(w)
	}
}
