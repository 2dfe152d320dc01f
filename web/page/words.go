package page

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/fabric"
)

// words are how templates write numbers: each with its unit.
var words = template.FuncMap{
	"cores": cores, "memory": memory, "bytes": func(n int64) string { return cluster.Bytes(n).Text() },
	"clock": clock, "lasting": lasting, "percent": func(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) },
	"count": count, "hours": hours, "path": url.PathEscape, "stateColour": stateColour, "toFinish": toFinish, "removed": func(vdisk string) bool { return strings.HasSuffix(vdisk, fabric.Removed) }, "taken": func(l fabric.Lent) int64 { return l.Quota - l.Free },
	"times": func(a, b float64) float64 { return a * b }, "int": toInt, "more": func(of, shown int) int { return of - shown },
	"within": func(at string, e entry) bool { return at == e.Path },
}

func cores(r cluster.Resources) string {
	n := strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%.2f", float64(r.CPU)/float64(cluster.Core)), "0"), ".0")
	if n == "1" {
		return "1 core"
	}
	return n + " cores"
}

func memory(r cluster.Resources) string { return r.Memory.Text() }

// clock writes a moment in UTC; the frame of the page says so.
func clock(at time.Time) string {
	if at.IsZero() {
		return "–"
	}
	return at.UTC().Format(time.DateTime)
}

// lasting is how long something took, or has taken until now.
func lasting(from, to, now time.Time) string {
	if from.IsZero() {
		return "–"
	}
	if to.IsZero() {
		to = now
	}
	took := to.Sub(from)
	if took < time.Minute {
		return fmt.Sprintf("%.1f s", took.Seconds())
	}
	return took.Round(time.Second).String()
}

func hours(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// stateColour is the number of a state's colour (docs/design.md).
func stateColour(s board.State) int {
	switch s {
	case board.Running:
		return 0
	case board.Killed:
		return 1
	case board.Finished:
		return 2
	case board.Failed:
		return 3
	case board.Waiting:
		return 4
	}
	return 7
}

// toInt is any whole number as count takes it.
func toInt(n any) (int, error) {
	switch n := n.(type) {
	case uint64:
		return int(n), nil
	case int64:
		return int(n), nil
	}
	return 0, fmt.Errorf("%v is no count", n)
}
