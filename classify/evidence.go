package classify

import (
	"fmt"
	"strconv"
	"time"

	"gleaner/cluster"
)

// Evidence is the measurements that decided a pattern. Standard deviations are in
// utilisation, 0 to 1.
type Evidence struct {
	Rule    string        // that decided, in words
	Period  time.Duration // the best period found, even if it was not good enough; 0 if none
	Cycles  float64       // of it in the window
	Share   float64       // of the variance that is not white noise, explained by the period, each cycle predicted by the others
	Steady  float64       // 1: the pattern is there all the time; 0: it is missing in some stretch of the window
	Weekend bool          // the days differ over the week
	Swing   float64       // standard deviation of the part that repeats
	Drift   float64       // of the part that neither repeats nor is white noise: drift, steps, long bursts
	Bursts  float64       // of samples too far above the median to be noise
	Noise   float64       // of white noise, from one sample to the next
}

// Why says in one line which rule decided, and then what else was measured.
func (e Evidence) Why() string {
	why := fmt.Sprintf("drift %s, bursts %s, noise %s points", points(e.Drift), points(e.Bursts), points(e.Noise))
	if e.Period == 0 {
		return e.Rule + "; " + why
	}
	return fmt.Sprintf("%s; %.1f cycles, steady %.2f, swing %s, %s", e.Rule, e.Cycles, e.Steady, points(e.Swing), why)
}

// explains says how much the period explains, by a fold at it or at its week,
// and how much it must.
func (e Evidence) explains(f folding) string {
	period := span(e.Period)
	if e.Weekend {
		period += " (weekends differ)"
	}
	return fmt.Sprintf("%s explains %.0f%% of all but noise, %.0f%% needed", period, 100*f.share(), 100*f.needed())
}

// lacks says what the best period found, if any, lacks in the window.
func (e Evidence) lacks(f folding, w cluster.Window) string {
	lack := "no period was found"
	switch {
	case e.Period > 0 && e.Period < minBinsCycle*w.Step:
		lack = fmt.Sprintf("%s is less than four samples", span(e.Period))
	case e.Period > 0 && f.share() < f.needed():
		lack = e.explains(f)
	case e.Period > 0 && e.Steady < minSteady:
		lack = fmt.Sprintf("%s is not there all the time", span(e.Period))
	case e.Period > 0:
		lack = fmt.Sprintf("%s is too faint", span(e.Period))
	}
	if float64(w.To().Sub(w.From)) < minCycles*float64(week) {
		lack += " (a week would need three weeks)"
	}
	return lack
}

// points returns a utilisation as a percentage.
func points(v float64) string { return fmt.Sprintf("%.1f", 100*v) }

// span returns a duration as people say it: 24 h, 4.8 h, 90 min.
func span(d time.Duration) string {
	if d < 2*time.Hour {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return strconv.FormatFloat(d.Round(6*time.Minute).Hours(), 'f', -1, 64) + " h"
}
