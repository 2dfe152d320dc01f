package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/web"
)

// The keys of top sort, turn the order around, move and end.
func TestKeysOfTop(t *testing.T) {
	begun := time.Now().Add(-time.Hour)
	var tasks []topTask
	for i := range 30 {
		id := cluster.TaskID{Job: 1, Stage: "a", Index: int32(i)}
		tasks = append(tasks, topTask{board.RunningTask{Task: id, Name: id.String(), Since: begun.Add(time.Duration(i) * time.Second), Request: cluster.Resources{CPU: cluster.MilliCPU(100 + i)}}, "ann", "a"})
	}
	v := topView{lines: topHead + 3, width: 60}
	for _, tc := range []struct {
		key, first string
	}{
		{"", "job-1/a-0"}, {"c", "job-1/a-29"}, {"r", "job-1/a-0"}, {"\x1b[B", "job-1/a-1"}, {"\x1b[6~", "job-1/a-4"}, {"\x1b[A", "job-1/a-3"},
		{"\x1b[5~", "job-1/a-0"}, {"\x1b[5~", "job-1/a-0"}, {"r", "job-1/a-29"}, {"t", "job-1/a-0"}, {"x", "job-1/a-0"},
	} {
		if !v.press(tc.key, len(tasks)) {
			t.Fatalf("%q ends it", tc.key)
		}
		v.arrange(tasks)
		lines := strings.Split(strings.TrimSuffix(v.text(web.Status{}, tasks), "\n"), "\n")
		if len(lines) > v.lines || !strings.HasPrefix(lines[len(lines)-3], tc.first+" ") {
			t.Errorf("after %q:\n%s", tc.key, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if len([]rune(line)) > v.width {
				t.Errorf("wider than the screen: %q", line)
			}
		}
	}
	for _, key := range []string{"q", "\x03"} {
		if v.press(key, len(tasks)) {
			t.Errorf("%q does not end it", key)
		}
	}
}

// The bar has a sign for everyone who uses something, and is never too long.
func TestBarOfTop(t *testing.T) {
	of := func(r cluster.Resources) float64 { return float64(r.CPU) }
	s := web.Status{Status: board.Status{Usage: board.Usage{Size: cluster.Resources{CPU: 1000}, Primary: cluster.Resources{CPU: 1}, Reserve: cluster.Resources{CPU: 900}}}, Harvested: cluster.Resources{CPU: 900}}
	drawn := strings.Split(bar(s, of, "%.0f"), "]")[0]
	if want := fmt.Sprintf("[#%s.", strings.Repeat("+", 18)); drawn != want {
		t.Errorf("%q, want %q", drawn, want)
	}
}
