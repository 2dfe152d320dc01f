package patterns

import (
	"math"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
)

const hoursOfWeek = 7 * 24

// A weekly counts samples by the hour of the week (UTC, from Monday) and by level,
// so that its size does not depend on their number.
type weekly struct {
	count [hoursOfWeek][levels + 1]float64
	sum   [hoursOfWeek]float64
	n     [hoursOfWeek]float64
}

// levels is how finely utilisation is counted: half a point.
const levels = 200

// add counts an average server as many times as there are servers.
func (y *weekly) add(w cluster.Window, cpu []float32, servers int) {
	weight := float64(servers)
	for i, v := range cpu {
		if math.IsNaN(float64(v)) {
			continue
		}
		h := hourOfWeek(w.From.Add(time.Duration(i) * w.Step))
		y.count[h][int(min(max(v, 0), 1)*levels)] += weight
		y.sum[h] += weight * float64(v)
		y.n[h] += weight
	}
}

func hourOfWeek(t time.Time) int {
	t = t.UTC()
	return (int(t.Weekday())+6)%7*24 + t.Hour()
}

// quantile returns the utilisation that a share q of the hour's samples stays under.
func (y *weekly) quantile(hour int, q float64) float64 {
	if y.n[hour] == 0 {
		return math.NaN()
	}
	seen := 0.0
	for level, c := range y.count[hour] {
		if seen += c; seen >= q*y.n[hour] {
			return float64(level) / levels
		}
	}
	return 1
}

// panel draws the mean and the band from the 5th to the 95th percentile.
func (y *weekly) panel(title string) chart.Panel {
	line := chart.Line{Name: "mean"}
	band := chart.Band{Name: "p5-p95"}
	for h := range hoursOfWeek {
		line.X = append(line.X, float64(h))
		line.Y = append(line.Y, 100*y.sum[h]/y.n[h])
		band.Low = append(band.Low, 100*y.quantile(h, 0.05))
		band.High = append(band.High, 100*y.quantile(h, 0.95))
	}
	band.X = line.X
	var ticks []chart.Tick
	for d, name := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		ticks = append(ticks, chart.Tick{At: float64(24 * d), Label: name})
	}
	return chart.Panel{Title: title, X: "hour of the week, from Monday (UTC)", Y: "CPU %", XTicks: ticks, YRange: &[2]float64{0, 100}, Bands: []chart.Band{band}, Lines: []chart.Line{line}}
}
