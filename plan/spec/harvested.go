package spec

import (
	"strings"
	"time"
)

// WeekHours are the hours of a week, from Monday midnight UTC on.
const WeekHours = 7 * 24

// Harvested is what others leave free of servers that are paid for already: cores by
// hour of the week, which are taken back from time to time.
type Harvested struct {
	File     string
	Name     string
	Cores    [WeekHours]float64
	Kills    [WeekHours]float64 // of tasks, in a core-hour
	Memory   Bytes              // beside each core
	BW       float64            // network beside each core, bytes a second
	Task     Seconds            // length of the tasks of which Lost was measured
	Lost     Seconds            // work that a kill costs
	Measured bool               // Lost is known; otherwise a kill costs half a task
}

// ReadHarvested reads a document of harvested capacity, as 'gleaner plan supply'
// writes it.
func ReadHarvested(file string, data []byte, edits ...Edit) (Harvested, error) {
	root, err := document(file, data, "harvested")
	if err != nil {
		return Harvested{}, err
	}
	r := reader{file: file}
	r.prepare(root, edits)
	out := Harvested{File: file, Name: r.word(root, "name", "harvested", false)}
	r.week(root, "cores", countKind, true, &out.Cores)
	r.week(root, "kills", freqAnHour, false, &out.Kills)
	out.Memory = r.number(root, "memory", want{kind: byteKind})
	out.BW = r.number(root, "BW", want{kind: rateKind, required: true, positive: true})
	out.Task = r.number(root, "task", want{kind: timeKind, positive: true})
	out.Lost = r.number(root, "lost", want{kind: timeKind})
	_, _, out.Measured = r.take(root, "lost")
	if out.Lost > 0 && out.Task == 0 {
		r.mistake(root.line, "harvested: lost is work of tasks whose length is not given: task is missing")
	}
	r.done(root)
	return out, r.err()
}

var freqAnHour = kind{what: "kills in a core-hour", example: "0.1", bare: true}

// week reads one number for all hours of the week, or one for each.
func (r *reader) week(n *node, name string, k kind, required bool, out *[WeekHours]float64) {
	text, line, ok := r.take(n, name)
	if !ok {
		if required {
			r.mistake(n.line, "%s: %s is missing", n.describe(), name)
		}
		return
	}
	words := strings.Fields(text)
	if len(words) != 1 && len(words) != WeekHours {
		r.mistake(line, "%s: %s: %d numbers; give one, or one for each of the %d hours of a week", n.describe(), name, len(words), WeekHours)
		return
	}
	for i := range out {
		word, err := r.settle(n, name, words[i%len(words)])
		v := 0.0
		if err == nil {
			v, err = k.quantity(word)
		}
		if err != nil {
			r.mistake(line, "%s: %s: %v", n.describe(), name, err)
			return
		}
		out[i] = v
	}
}

// start reads when a job starts: "Mon 18:00", as hours since Monday midnight; -1 if
// it may be at any time.
func (r *reader) start(n *node) float64 {
	text, line, ok := r.take(n, "start")
	if !ok {
		return AnyTime
	}
	at, err := time.Parse("Mon 15:04", strings.TrimSpace(text))
	day := -1
	for d := range 7 {
		if strings.HasPrefix(strings.TrimSpace(text), time.Weekday((d + 1) % 7).String()[:3]+" ") {
			day = d
		}
	}
	if err != nil || day < 0 {
		r.mistake(line, "%s: start: %q is not a time of the week, for example %q (UTC)", n.describe(), text, "Mon 18:00")
		return AnyTime
	}
	return float64(day*24+at.Hour()) + float64(at.Minute())/60
}

// AnyTime is the Start of a job that may start at any time.
const AnyTime = -1

// Window is what a job of some hours gets that starts at an hour of the week: cores on average and
// in the worst hour, and kills in a core-hour.
func (h Harvested) Window(start, hours float64) (mean, least, kills float64) {
	weeks := float64(int(hours) / WeekHours)
	rest := hours - weeks*WeekHours
	held, dead := 0.0, 0.0
	least = h.Cores[int(start)%WeekHours]
	add := func(hour int, part float64) {
		k := hour % WeekHours
		held += part * h.Cores[k]
		dead += part * h.Cores[k] * h.Kills[k]
		if part > 1e-9 {
			least = min(least, h.Cores[k])
		}
	}
	if weeks > 0 {
		for k := range WeekHours {
			add(k, weeks)
		}
	}
	for at, end := start, start+rest; at < end-1e-9; {
		next := min(float64(int(at+1e-9)+1), end)
		add(int(at+1e-9), next-at)
		at = next
	}
	if held > 0 {
		kills = dead / held
	}
	return held / hours, least, kills
}
