package web_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/web"
)

// A shelf has two disks, one of them away, and some upkeep.
type shelf struct{ err error }

func (s shelf) Lent(context.Context) ([]fabric.Lent, error) {
	return []fabric.Lent{{Server: "s1", Disk: "d1", Tier: "ssd", State: "up", Quota: 100, Free: 60}, {Server: "s2", Disk: "d2", Tier: "hdd", State: "away"}}, s.err
}

func (s shelf) Curation(context.Context) (fabric.Curation, error) {
	return fabric.Curation{Paused: "noon", Findings: []string{"a block"}, Checked: fabric.Checked{At: time.Unix(5, 0), Corrupt: 2}, Scrubbed: fabric.Scrubbed{Passes: 3, Corrupt: 1},
		Tasks: []fabric.Backlog{{Kind: "rebuild", Waiting: 4, UnderWay: 1, Done: 7, Refused: 2, Failed: 3, Seconds: 12}, {Kind: "pack", Seconds: -1}}}, nil
}

func scrape(t *testing.T) []byte {
	t.Helper()
	m := &machine{dir: t.TempDir()}
	b, _ := m.api(t)
	api := &web.API{Board: b, Machine: m, Harvested: func() cluster.Resources { return cluster.Resources{CPU: 250, Memory: cluster.MB} }, Version: "1.2.3",
		Storage: func() web.Storage { return shelf{} }}
	w := ask(api.Handler(), "GET", "/metrics", "")
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("%d, %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	return w.Body.Bytes()
}

func TestMetrics(t *testing.T) {
	text := string(scrape(t))
	for _, line := range []string{
		`gleaner_build_info{version="1.2.3"} 1`,
		"gleaner_machine_cpu_cores 4",
		"gleaner_reserve_cpu_cores 0.5",
		"gleaner_requested_cpu_cores 1",
		"gleaner_harvested_cpu_cores 0.25",
		"gleaner_harvested_memory_bytes 1.048576e+06",
		`gleaner_tasks{state="running"} 1`,
		`gleaner_tasks{state="waiting"} 1`,
		`gleaner_tasks{state="blocked"} 1`,
		`gleaner_jobs{state="running"} 1`,
		`gleaner_jobs{state="failed"} 0`,
		"gleaner_tasks_started_total 2",
		`gleaner_tasks_ended_total{outcome="finished"} 1`,
		`gleaner_tasks_ended_total{outcome="killed"} 0`,
		"gleaner_jobs_submitted_total 1",
		`gleaner_jobs_ended_total{state="finished"} 0`,
		"gleaner_storage_up 1",
		`gleaner_disks{state="up"} 1`,
		`gleaner_disks{state="away"} 1`,
		`gleaner_disks{state="busy"} 0`,
		`gleaner_disk_free_bytes{disk="d1",server="s1",tier="ssd"} 60`,
		"gleaner_upkeep_paused 1",
		`gleaner_upkeep_tasks{state="waiting",task="rebuild"} 4`,
		`gleaner_upkeep_tasks_ended_total{outcome="failed",task="rebuild"} 3`,
		`gleaner_upkeep_seconds_to_finish{task="rebuild"} 12`,
		"gleaner_findings 1",
		"gleaner_check_timestamp_seconds 5",
		`gleaner_check_found{what="corrupt"} 2`,
		"gleaner_scrub_passes_total 3",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

// Disks that are not open, or cannot be asked, are told of by one metric.
func TestMetricsWithoutDisks(t *testing.T) {
	for _, disks := range []web.Storage{nil, shelf{errors.New("no store")}} {
		m := &machine{dir: t.TempDir()}
		b, _ := m.api(t)
		api := &web.API{Board: b, Machine: m, Harvested: func() cluster.Resources { return cluster.Resources{} }, Storage: func() web.Storage { return disks }}
		text := ask(api.Handler(), "GET", "/metrics", "").Body.String()
		if !strings.Contains(text, "\ngleaner_storage_up 0\n") || strings.Contains(text, "gleaner_disks") || strings.Contains(text, "gleaner_upkeep") {
			t.Errorf("%s", text)
		}
	}
}

// The metrics follow the conventions of Prometheus.
func TestMetricsAreLinted(t *testing.T) {
	problems, err := promlint.New(bytes.NewReader(scrape(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The page has every metric of ours, with its help, and no other.
func TestMetricsAreOnTheirPage(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var have, told []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (gleaner_\w+) (\w+)$`).FindAllStringSubmatch(string(scrape(t)), -1) {
		have = append(have, m[1]+" "+m[2])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(gleaner_\\w+)[^`]*` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		told = append(told, m[1]+" "+m[2])
	}
	slices.Sort(told)
	if !slices.Equal(have, told) {
		t.Errorf("metrics %q\non the page %q", have, told)
	}
}
