package patterns

import (
	"fmt"

	"gleaner/chart"
	"gleaner/history/reimages"
)

// Reimages draws Figures 4 to 6 of the paper: how often servers are reimaged,
// how often tenants are, and how often tenants change group.
func Reimages(r reimages.Report) []chart.Figure {
	return []chart.Figure{
		cdf("fig4-server-reimages", "Reimages per server", "reimages per month", "share of servers", r.ServerCDF()),
		cdf("fig5-tenant-reimages", "Reimages per tenant", "reimages per server and month", "share of tenants", r.TenantCDF()),
		cdf("fig6-group-changes", "Moves between frequency groups",
			fmt.Sprintf("changes in %d months, of %d possible", r.Months, max(r.Months-1, 0)), "share of tenants", r.ChangesCDF()),
	}
}

func cdf(name, title, x, y string, points []reimages.Share) chart.Figure {
	line := chart.Line{Step: true}
	if len(points) > 0 {
		line.X, line.Y = []float64{0}, []float64{0}
	}
	for _, p := range points {
		line.X, line.Y = append(line.X, p.AtMost), append(line.Y, p.Share)
	}
	return chart.Figure{Name: name, Panels: []chart.Panel{{Title: title, X: x, Y: y, Lines: []chart.Line{line}, YRange: &[2]float64{0, 1}}}}
}
