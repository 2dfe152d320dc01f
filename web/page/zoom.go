package page

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gleaner/chart"
	"gleaner/control/board"
)

// A zoom is the range of time that charts are drawn for, from the address of a view.
type zoom struct {
	From, To time.Time
	All      string // the address without it
}

// zoomOf is the range that an address names as Unix seconds, to the millisecond; nil if it names none.
func zoomOf(r *http.Request) *zoom {
	asked := r.URL.Query()
	from, ok := moment(asked.Get("from"))
	to, also := moment(asked.Get("to"))
	if !ok || !also || !from.Before(to) {
		return nil
	}
	asked.Del("from")
	asked.Del("to")
	all := r.URL.EscapedPath()
	if rest := asked.Encode(); rest != "" {
		all += "?" + rest
	}
	return &zoom{from, to, all}
}

// moment reads Unix seconds, up to the year 5138.
func moment(text string) (time.Time, bool) {
	at, err := strconv.ParseFloat(text, 64)
	if err != nil || !(at >= 0 && at < 1e11) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(math.Round(1000 * at))), true
}

// Text is the range in words: with tenths or thousandths of a second if it has some.
func (z *zoom) Text() string {
	layout := time.DateTime
	switch {
	case z.From.Nanosecond()%1e8 != 0 || z.To.Nanosecond()%1e8 != 0:
		layout += ".000"
	case z.From.Nanosecond() != 0 || z.To.Nanosecond() != 0:
		layout += ".0"
	}
	return "From " + z.From.UTC().Format(layout) + " to " + z.To.UTC().Format(layout)
}

// into cuts panels over time to the range.
func (z *zoom) into(panels []chart.Panel) []chart.Panel {
	if z == nil {
		return panels
	}
	var all []chart.Panel
	for _, p := range panels {
		if p.Time {
			p = p.Within(seconds(z.From), seconds(z.To))
		}
		all = append(all, p)
	}
	return all
}

// runs are those that were under way in the range: a job may have more tasks than a chart has rows.
func (z *zoom) runs(all []board.Run, now time.Time) []board.Run {
	if z == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(r board.Run) bool {
		to := r.To
		if to.IsZero() {
			to = now
		}
		return r.From.After(z.To) || to.Before(z.From)
	})
}
