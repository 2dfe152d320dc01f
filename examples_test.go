package gleaner_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var metricNames = regexp.MustCompile(`gleaner_[a-z_]+`)

// The dashboard asks only for metrics that docs/metrics.md names, which web's tests
// compare with those that there are.
func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("examples/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	page := pages(t)["docs/metrics.md"]
	known := map[string]bool{}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| `gleaner_") {
			known[metricNames.FindString(line)] = true
		}
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			names := metricNames.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s asks for no metric of ours: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				if !known[name] {
					t.Errorf("%s asks for %s, which docs/metrics.md does not name", p.Title, name)
				}
			}
		}
	}
	if len(dashboard.Panels) < 10 {
		t.Errorf("only %d panels", len(dashboard.Panels))
	}
}

// systemd likes the unit: its exposure is below 5, where OK ends.
func TestSystemdLikesTheUnit(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	out, err := exec.Command(tool, "security", "--offline=true", "--no-pager", "./examples/gleaner.service").CombinedOutput()
	if err != nil {
		t.Skipf("this systemd-analyze cannot examine a file: %v: %s", err, out)
	}
	m := regexp.MustCompile(`Overall exposure level for gleaner.service: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%s", out)
	}
	if level, err := strconv.ParseFloat(string(m[1]), 64); err != nil || level >= 5 {
		t.Errorf("exposure %s: %s", m[1], out)
	}
}
