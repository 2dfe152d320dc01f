package colocation

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/lab"
	"gleaner/lab/search"
)

func TestTheDaySwingsAndIsLearned(t *testing.T) {
	d, err := swingingDay(mean)
	if err != nil {
		t.Fatal(err)
	}
	average, peak := summary(d.use)
	if math.Abs(average-mean) > 0.001 || peak < 1.8*mean || len(d.past) != learned*len(d.use) {
		t.Errorf("mean %.3f, peak %.3f, %d slots before %d", average, peak, len(d.past), len(d.use))
	}
	if d.at(0) != d.use[0] || d.at(1) != d.use[len(d.use)-1] {
		t.Error("the day does not begin and end as it should")
	}
	classes, err := d.classes(context.Background(), cluster.Server{ID: "here"})
	if err != nil || len(classes) != 1 || classes[0].Pattern != cluster.Periodic || !slices.Contains(classes[0].Tenants, cluster.Server{ID: "here"}.Tenant()) {
		t.Errorf("%+v, %v", classes, err)
	}
}

func TestJobsComeAsOftenAsTheyShould(t *testing.T) {
	for _, shapes := range [][]shape{queries, copies} {
		tasks := 0
		for _, a := range arrivals(shapes, 10_000, time.Hour, rand.New(rand.NewPCG(1, 1))) {
			tasks += a.first + a.width
			if err := (kit{request: cluster.Resources{CPU: 1}}).job(a.shape, "").Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if tasks < 10_000 || tasks > 10_010 {
			t.Errorf("%d tasks, want 10000 and at most one job more", tasks)
		}
	}
}

// played makes up a day in which every query takes that long.
func played(took time.Duration, o outcome) outcome {
	for i := range 100 {
		o.queries = append(o.queries, search.Query{At: time.Duration(i) * 100 * time.Millisecond, Took: took})
	}
	return o
}

func TestTablesCompareWithThePrimaryAlone(t *testing.T) {
	ms := time.Millisecond
	jobs := []jobRun{{name: "query-small", took: 2 * time.Second, finished: true}, {name: "query-large", took: 4 * time.Second}}
	m := &measurement{size: size{length: 10 * time.Second, windows: 5, rounds: 2}, cores: 2, results: []result{
		{alone, []outcome{played(10*ms, outcome{busy: 0.26, primary: 0.25, confined: true}), played(10*ms, outcome{busy: 0.26, primary: 0.25, confined: true})}},
		{historical, []outcome{played(11*ms, outcome{busy: 0.61, primary: 0.25, harvested: 0.35, killed: 3, started: 9, jobs: jobs, moved: 50, confined: true})}},
	}}
	for _, tc := range []struct {
		show view
		says []string
	}{
		{fig10, []string{"alone    10.00", "+10.0%", "60%", "35%", "within 44 ms", "alone, the second day was over the first by +0.0%"}},
		{fig11, []string{"history  2     1         3.00    2.00           NaN             4.00"}},
		{fig12, []string{"+10.0%", "35%        5 ", "within 47 ms"}},
	} {
		table, _ := tc.show(m)
		var text strings.Builder
		if err := table.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		for _, part := range tc.says {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s does not say %q:\n%s", table.Name, part, text.String())
			}
		}
	}
}

func TestWhereItCannotBeMeasuredTheTableSaysWhy(t *testing.T) {
	nowhere := func(context.Context, lab.Options) (*measurement, error) {
		return &measurement{missing: "there is no machine"}, nil
	}
	for _, show := range []view{fig10, fig11, fig12, reserves} {
		tables, figures, err := show.of(nowhere)(context.Background(), lab.Options{})
		if err != nil || len(figures) != 0 || len(tables) != 1 || len(tables[0].Rows) != 0 || !slices.Equal(tables[0].Notes, []string{"Left out: there is no machine."}) {
			t.Errorf("%v, %v, %v", tables, figures, err)
		}
	}
}

// Settings are compared within a round: a machine that becomes slower by half does
// not matter, and the choice is the smallest reserve within bounds.
func TestReservesAreComparedRoundByRound(t *testing.T) {
	settings := lessAndLess()
	costs := []float64{1, 1.01, 1.02, 1.05, 1.30, 1}
	m := &measurement{size: size{length: 10 * time.Second, windows: 5, rounds: 5}, cores: 2}
	for i, s := range settings {
		r := result{setting: s}
		for _, pace := range []float64{10, 11, 12, 13, 15} {
			took := time.Duration(pace * costs[i] * float64(time.Millisecond))
			r.days = append(r.days, played(took, outcome{primary: 0.25, harvested: 0.1 * float64(i), confined: true, isolated: true}))
		}
		m.results = append(m.results, r)
	}
	table, _ := reserves(m)
	var text strings.Builder
	if err := table.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a third, whole cores  12.12           +1.0%", "a tenth               12.60           +5.0%               +5.0% to +5.0%",
		"none                  15.60           +30.0%", "in all rounds together: a tenth."} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the table does not say %q:\n%s", part, text.String())
		}
	}
	for i := range m.results[4].days {
		m.results[4].days[i].isolated = false
	}
	if table, _ := reserves(m); !strings.Contains(table.Notes[0], "does not isolate") {
		t.Errorf("%q", table.Notes[0])
	}
}

func TestWhereTheMedianLies(t *testing.T) {
	for n, want := range map[int][2]float64{1: {1, 1}, 5: {1, 5}, 8: {2, 7}, 12: {3, 10}, 100: {42, 59}} {
		if low, high := medianBetween(counting(n)); low != want[0] || high != want[1] {
			t.Errorf("of %d: %g to %g, want %v", n, low, high, want)
		}
	}
}
