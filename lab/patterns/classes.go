package patterns

import (
	"fmt"
	"math"
	"time"

	"gleaner/chart"
	"gleaner/classify"
	"gleaner/cluster"
)

// Classes draws what classification found: Figure 1 with the clearest periodic
// and the largest unpredictable tenant, the shares of Figures 2 and 3, and
// every class as a band over the week.
func Classes(w cluster.Window, series []cluster.Series, r classify.Result) []chart.Figure {
	var figures []chart.Figure
	if fig, ok := figure1(w, series, r); ok {
		figures = append(figures, fig)
	}
	figures = append(figures,
		shares("fig2-tenants-per-pattern", "Tenants per pattern", "% of tenants", r, func(classify.Tenant) int { return 1 }),
		shares("fig3-servers-per-pattern", "Servers per pattern", "% of servers", r, func(t classify.Tenant) int { return t.Servers }))
	if len(r.Classes) > 0 {
		figures = append(figures, bands(w, series, r))
	}
	return figures
}

// Tenant draws one tenant in four panels: time and frequency as in Figure 1,
// its week, and the distribution of its utilisation.
func Tenant(w cluster.Window, s cluster.Series) chart.Figure {
	week := new(weekly)
	week.add(w, s.CPU, 1)
	panels := append(timeAndFrequency(w, s, string(s.Tenant)), week.panel("The week"), distribution(s))
	return chart.Figure{Name: "tenant", Columns: 2, Panels: panels}
}

// figure1 shows a periodic and an unpredictable tenant in time and frequency.
func figure1(w cluster.Window, series []cluster.Series, r classify.Result) (chart.Figure, bool) {
	var periodic, wild *classify.Tenant
	for i := range r.Tenants {
		t := &r.Tenants[i]
		switch t.Pattern {
		case cluster.Periodic:
			if periodic == nil || t.Evidence.Share*t.Evidence.Swing > periodic.Evidence.Share*periodic.Evidence.Swing {
				periodic = t
			}
		case cluster.Unpredictable:
			if wild == nil || t.Servers > wild.Servers || t.Servers == wild.Servers && t.Evidence.Drift > wild.Evidence.Drift {
				wild = t
			}
		}
	}
	fig := chart.Figure{Name: "fig1-time-and-frequency", Columns: 2}
	for _, t := range []*classify.Tenant{periodic, wild} {
		if t == nil {
			continue
		}
		for _, s := range series {
			if s.Tenant == t.ID {
				fig.Panels = append(fig.Panels, timeAndFrequency(w, s, fmt.Sprintf("%s (%s)", t.ID, t.Pattern))...)
			}
		}
	}
	return fig, len(fig.Panels) > 0
}

// maxPoints is how many points of a line a figure can show.
const maxPoints = 1500

func timeAndFrequency(w cluster.Window, s cluster.Series, title string) []chart.Panel {
	every := (len(s.CPU) + maxPoints - 1) / maxPoints
	var over chart.Line
	for from := 0; from < len(s.CPU); from += every {
		over.X = append(over.X, (time.Duration(from)*w.Step).Hours()/24)
		over.Y = append(over.Y, 100*mean(s.CPU[from:min(from+every, len(s.CPU))]))
	}
	var strength chart.Line
	strength.X, strength.Y = classify.Spectrum(w, s.CPU)
	// Beyond six cycles a day there is only noise to see.
	days := time.Duration(w.Len) * w.Step / (24 * time.Hour)
	for i, cycles := range strength.X {
		if cycles > 6*float64(max(days, 1)) {
			strength.X, strength.Y = strength.X[:i], strength.Y[:i]
			break
		}
	}
	for i := range strength.Y {
		strength.Y[i] *= 100
	}
	return []chart.Panel{
		{Title: title, X: "day", Y: "CPU %", Lines: []chart.Line{over}, YRange: &[2]float64{0, 100}},
		{Title: title + " in the frequency domain", X: "cycles in the window", Y: "strength, points", Lines: []chart.Line{strength}},
	}
}

// mean ignores missing values; it is NaN if there are no others.
func mean(values []float32) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(float64(v)) {
			sum, n = sum+float64(v), n+1
		}
	}
	return sum / float64(n)
}

func shares(name, title, y string, r classify.Result, weight func(classify.Tenant) int) chart.Figure {
	count, total := map[cluster.Pattern]int{}, 0
	for _, t := range r.Tenants {
		count[t.Pattern] += weight(t)
		total += weight(t)
	}
	bars := chart.Bars{Groups: []string{"all"}}
	for _, p := range cluster.Patterns {
		bars.Names = append(bars.Names, p.String())
		bars.Values = append(bars.Values, []float64{100 * float64(count[p]) / float64(max(total, 1))})
	}
	return chart.Figure{Name: name, Panels: []chart.Panel{{Title: title, Y: y, Bars: bars}}}
}

func distribution(s cluster.Series) chart.Panel {
	const bins = 50
	var count [bins]float64
	n := 0
	for _, v := range s.CPU {
		if !math.IsNaN(float64(v)) {
			count[min(int(v*bins), bins-1)]++
			n++
		}
	}
	line := chart.Line{Step: true}
	for i, c := range count {
		line.X = append(line.X, 100*float64(i)/bins)
		line.Y = append(line.Y, 100*c/float64(max(n, 1)))
	}
	return chart.Panel{Title: "How often how busy", X: "CPU %", Y: "% of samples", Lines: []chart.Line{line}}
}

func bands(w cluster.Window, series []cluster.Series, r classify.Result) chart.Figure {
	fig := chart.Figure{Name: "classes", Columns: 3, Width: 4.5, Height: 2.6}
	week := map[string]*weekly{}
	for _, t := range r.Tenants {
		for _, s := range series {
			if s.Tenant != t.ID {
				continue
			}
			if week[t.Class] == nil {
				week[t.Class] = new(weekly)
			}
			week[t.Class].add(w, s.CPU, t.Servers)
		}
	}
	for _, c := range r.Classes {
		title := fmt.Sprintf("%s: %s, %s", c.ID, many(len(c.Tenants), "tenant"), many(c.Servers, "server"))
		fig.Panels = append(fig.Panels, week[c.ID].panel(title))
	}
	return fig
}

// many is a number of things, in words.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
