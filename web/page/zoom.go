package page

import (
	"net/http"
	"strconv"
	"time"

	"gleaner/chart"
)

// A zoom is the range of time that charts are drawn for, from the address of a view.
type zoom struct {
	From, To time.Time
	All      string // the address without it
}

// zoomOf is the range that an address names as Unix seconds; nil if it names none.
func zoomOf(r *http.Request) *zoom {
	asked := r.URL.Query()
	from, err := strconv.ParseInt(asked.Get("from"), 10, 64)
	if err != nil {
		return nil
	}
	to, err := strconv.ParseInt(asked.Get("to"), 10, 64)
	if err != nil || to <= from {
		return nil
	}
	asked.Del("from")
	asked.Del("to")
	all := r.URL.EscapedPath()
	if rest := asked.Encode(); rest != "" {
		all += "?" + rest
	}
	return &zoom{time.Unix(from, 0), time.Unix(to, 0), all}
}

// into cuts panels over time to the range.
func (z *zoom) into(panels []chart.Panel) []chart.Panel {
	if z == nil {
		return panels
	}
	var all []chart.Panel
	for _, p := range panels {
		if p.Time {
			p = p.Within(float64(z.From.Unix()), float64(z.To.Unix()))
		}
		all = append(all, p)
	}
	return all
}
