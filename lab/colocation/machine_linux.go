package colocation

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// ticks are how long the machine's cores have been what, all together.
type ticks struct{ busy, stolen, all float64 }

// readTicks reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal.
func readTicks() (ticks, error) {
	const idle, iowait, steal, fields = 3, 4, 7, 8
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	columns := bytes.Fields(line)
	if len(columns) < 1+fields {
		return ticks{}, fmt.Errorf("/proc/stat starts with %.80q, not with the times of all cores", line)
	}
	var t ticks
	for i, column := range columns[1 : 1+fields] {
		n, err := strconv.ParseFloat(string(column), 64)
		if err != nil {
			return ticks{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += n
		switch i {
		case idle, iowait:
		case steal:
			t.stolen += n
		default:
			t.busy += n
		}
	}
	return t, nil
}

// since tells the shares of the machine that were busy, and taken by its host.
func (t ticks) since(before ticks) (busy, stolen float64) {
	all := max(t.all-before.all, 1)
	return (t.busy - before.busy) / all, (t.stolen - before.stolen) / all
}
