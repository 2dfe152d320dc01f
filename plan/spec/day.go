package spec

import (
	"fmt"
	"slices"
	"strings"
)

// DayHours are the hours of a day.
const DayHours = 24

// A Level is hours of the day in which every rate of an SLA stays the same.
type Level struct {
	Name  string // its hours: "8-18", or "18-8, 12-14"
	Hours int    // how many
}

// Times is the rate at k times the load.
func (r Rate) Times(k float64) Rate {
	r.PerSecond *= k
	r.Levels = slices.Clone(r.Levels)
	for i := range r.Levels {
		r.Levels[i] *= k
	}
	return r
}

// A curve is a task's rate over the day.
type curve struct {
	rate [DayHours]float64
	text [DayHours]string // hours with the same text have the same rate in every draw
}

// curve reads the rate of each hour: rate="100", and children <hours from="8" to="18" rate="900"/> for
// hours that differ.
func (r *reader) curve(n *node) curve {
	var out curve
	line := [DayHours]int{}
	for i, c := range n.children {
		if c.name != "hours" {
			continue
		}
		from := r.whole(c, "from", want{kind: countKind, required: true, most: DayHours - 1})
		to := r.whole(c, "to", want{kind: countKind, required: true, most: DayHours})
		rate := r.number(c, "rate", want{kind: freqKind, required: true})
		text, _, _ := r.take(c, "rate")
		if !certain(text) { // each is drawn by itself
			text = fmt.Sprintf("%s of hours %d", text, i)
		}
		r.done(c)
		if from == to {
			r.mistake(c.line, "hours: from %d to %d is no time", from, to)
		}
		if to < from {
			to += DayHours // over midnight
		}
		for h := from; h < to; h++ {
			if first := line[h%DayHours]; first > 0 {
				r.mistake(c.line, "hours: the hour from %d on has a rate on line %d", h%DayHours, first)
				break
			}
			line[h%DayHours], out.rate[h%DayHours], out.text[h%DayHours] = c.line, rate, text
		}
	}
	given := slices.Max(line[:]) > 0
	rate := r.number(n, "rate", want{kind: freqKind, required: slices.Min(line[:]) == 0, positive: !given})
	text, _, _ := r.take(n, "rate")
	for h := range line {
		if line[h] == 0 {
			out.rate[h], out.text[h] = rate, text
		}
	}
	if given && slices.Max(out.rate[:]) == 0 {
		r.mistake(n.line, "sla: rate: is 0 all day")
	}
	return out
}

// day divides the day into levels, and gives every rate its value in each. It has none if rates
// stay the same all day.
func (r *reader) day(out *SLA, curves []curve, app Application) {
	var keys []string
	hours := map[string][]int{}
	for h := range DayHours {
		var key strings.Builder
		for _, c := range curves {
			fmt.Fprintf(&key, "%q ", c.text[h])
		}
		if hours[key.String()] == nil {
			keys = append(keys, key.String())
		}
		hours[key.String()] = append(hours[key.String()], h)
	}
	for i, c := range curves {
		out.Rates[i].PerSecond = slices.Max(c.rate[:])
	}
	if len(keys) < 2 {
		return
	}
	for _, key := range keys {
		out.Day = append(out.Day, Level{spans(hours[key]), len(hours[key])})
		for i, c := range curves {
			out.Rates[i].Levels = append(out.Rates[i].Levels, c.rate[hours[key][0]])
		}
	}
	if phases := app.Phases(); len(phases) > 1 {
		r.mistake(out.Rates[0].Line, "sla: hours: tasks of %s are in %d phases, and a day is planned for one", app.File, len(phases))
	}
}

// spans spells hours, given in ascending order: "8-18", or "22-6" over midnight.
func spans(hours []int) string {
	in := func(h int) bool { return slices.Contains(hours, (h+DayHours)%DayHours) }
	var out []string
	for _, from := range hours {
		if in(from - 1) {
			continue
		}
		to := from + 1
		for in(to) {
			to++
		}
		if to > DayHours {
			to -= DayHours
		}
		out = append(out, fmt.Sprintf("%d-%d", from, to))
	}
	return strings.Join(out, ", ")
}
