package patterns

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/chart"
	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/history/reimages"
)

// threeTenants are four weeks of a daily, a constant and a drifting tenant, from a Monday on.
func threeTenants() (cluster.Window, []cluster.Series) {
	w := cluster.Window{From: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), Step: time.Hour, Len: 28 * 24}
	rng := rand.New(rand.NewPCG(1, 1))
	series := []cluster.Series{{Tenant: "day", Servers: 3}, {Tenant: "still", Servers: 2}, {Tenant: "wild", Servers: 1}}
	drift := 0.5
	for h := range w.Len {
		drift = min(max(drift+0.03*rng.NormFloat64(), 0), 1)
		for i, v := range []float64{0.4 + 0.3*math.Sin(2*math.Pi*float64(h-6)/24), 0.2, drift} {
			series[i].CPU = append(series[i].CPU, float32(v+0.005*rng.NormFloat64()))
		}
	}
	series[1].CPU[5] = float32(math.NaN())
	return w, series
}

func figures(all []chart.Figure) map[string]chart.Figure {
	byName := map[string]chart.Figure{}
	for _, f := range all {
		byName[f.Name] = f
	}
	return byName
}

func TestClassesDrawsThePapersFigures(t *testing.T) {
	w, series := threeTenants()
	r := classify.Run(w, series, classify.Options{Seed: 1})
	drawn := figures(Classes(w, series, r))

	fig1 := drawn["fig1-time-and-frequency"]
	if len(fig1.Panels) != 4 || fig1.Panels[0].Title != "day (periodic)" || fig1.Panels[2].Title != "wild (unpredictable)" {
		t.Fatalf("figure 1 has panels %+v", titles(fig1))
	}
	// Figure 1b: a daily load over 28 days is strongest at 28 cycles.
	spectrum := fig1.Panels[1].Lines[0]
	top := 0
	for i := range spectrum.Y {
		if spectrum.Y[i] > spectrum.Y[top] {
			top = i
		}
	}
	if math.Abs(spectrum.X[top]-28) > 0.1 {
		t.Errorf("the daily tenant is strongest at %v cycles, want 28", spectrum.X[top])
	}
	for name, want := range map[string][3]float64{"fig2-tenants-per-pattern": {100. / 3, 100. / 3, 100. / 3}, "fig3-servers-per-pattern": {50, 100. / 3, 50. / 3}} {
		for i, v := range want {
			if got := drawn[name].Panels[0].Bars.Values[i][0]; math.Abs(got-v) > 1e-9 {
				t.Errorf("%s: bar %d is %v, want %v", name, i, got, v)
			}
		}
	}
	if got := len(drawn["classes"].Panels); got != len(r.Classes) {
		t.Errorf("%d panels for %d classes", got, len(r.Classes))
	}
}

func TestAClassIsABandOverTheWeek(t *testing.T) {
	w, series := threeTenants()
	r := classify.Run(w, series, classify.Options{Seed: 1})
	for _, p := range figures(Classes(w, series, r))["classes"].Panels {
		if p.Title != "periodic-1: 1 tenant, 3 servers" {
			continue
		}
		noon, night := 12, 0 // of Monday; the sine is highest at 12:00
		mean, band := p.Lines[0].Y, p.Bands[0]
		if len(mean) != 168 || math.Abs(mean[noon]-70) > 1 || math.Abs(mean[night]-10) > 1 {
			t.Errorf("mean at noon %v and at night %v, want about 70 and 10", mean[noon], mean[night])
		}
		if !(band.Low[noon] <= mean[noon] && mean[noon] <= band.High[noon]+0.5 && band.High[noon]-band.Low[noon] < 5) {
			t.Errorf("band %v to %v around %v", band.Low[noon], band.High[noon], mean[noon])
		}
		return
	}
	t.Error("no panel for the daily class")
}

func TestATenantInFourPanels(t *testing.T) {
	w, series := threeTenants()
	if fig := Tenant(w, series[0]); len(fig.Panels) != 4 {
		t.Errorf("panels %v", titles(fig))
	}
}

func TestNothingToDraw(t *testing.T) {
	w, _ := threeTenants()
	for _, f := range Classes(w, nil, classify.Result{}) {
		if err := f.WriteSVG(io.Discard); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	for _, f := range Reimages(reimages.Report{}) {
		if err := f.WriteSVG(io.Discard); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestReimagesAreDistributions(t *testing.T) {
	at := time.Date(2024, 1, 5, 0, 0, 0, 0, time.UTC)
	servers := []cluster.Server{{ID: "a", Environment: "e"}, {ID: "b", Environment: "f"}}
	r := reimages.Analyse(servers, []cluster.Reimage{{At: at, Server: "a"}, {At: at.AddDate(0, 1, 0), Server: "a"}})
	line := figures(Reimages(r))["fig4-server-reimages"].Panels[0].Lines[0]
	if n := len(line.X); n != 3 || line.X[n-1] != 1 || line.Y[n-1] != 1 || line.Y[1] != 0.5 {
		t.Errorf("CDF %v %v", line.X, line.Y)
	}
}

func titles(f chart.Figure) (out []string) {
	for _, p := range f.Panels {
		out = append(out, p.Title)
	}
	return out
}

// Tenants that are reimaged more are in another column, and replicas find three environments; where there is one, every block is refused.
func TestDivideByHabits(t *testing.T) {
	var servers []cluster.Server
	var log []cluster.Reimage
	var classes classify.Result
	for i := range 18 {
		s := cluster.Server{ID: cluster.ServerID(fmt.Sprint("s", i)), Environment: fmt.Sprint("e", i%9), Disk: 100 * cluster.GB}
		servers = append(servers, s)
		classes.Tenants = append(classes.Tenants, classify.Tenant{ID: s.Tenant(), Peak: float64(i%3) / 4})
		for n := range i % 9 / 3 {
			log = append(log, cluster.Reimage{At: time.Date(2026, 5, 1+n, 0, 0, 0, 0, time.UTC), Server: s.ID})
		}
	}
	d := Divide(servers, reimages.Analyse(servers, log), classes, 1)
	for i, c := range d.Cells {
		if c.Tenants != 1 || c.Servers != 2 || c.Free != 200*cluster.GB {
			t.Errorf("cell %d has %+v", i, c)
		}
	}
	if d.Well != d.Blocks || d.Refused != 0 {
		t.Errorf("%d of %d blocks are placed well, %d refused", d.Well, d.Blocks, d.Refused)
	}
	if d := Divide(servers[:1], reimages.Report{}, classify.Result{}, 1); d.Refused != d.Blocks {
		t.Errorf("on one server %+v", d)
	}
}
