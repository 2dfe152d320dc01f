package reimages

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"gleaner/cluster"
)

// TestScenarios reads small clusters and logs: a line "server tenant" or
// "YYYY-MM-DD server" each, and prints the report as a table.
func TestScenarios(t *testing.T) {
	datadriven.RunTest(t, "testdata/reimages", func(t *testing.T, d *datadriven.TestData) string {
		servers, log := parse(t, d.Input)
		r := Analyse(servers, log)
		var out strings.Builder
		fmt.Fprintf(&out, "%s to %s, %d months, %d reimages, %d strays, %d tied\n", r.From.Format(time.DateOnly), r.To.Format(time.DateOnly), r.Months, r.Reimages, r.Strays, r.Tied)
		for _, tenant := range r.Tenants {
			fmt.Fprintf(&out, "%s servers=%d reimages=%d rate=%.2f %s changes=%d %v\n",
				tenant.ID, tenant.Servers, tenant.Reimages, tenant.PerMonth, tenant.Group, tenant.Changes, tenant.ByMonth)
		}
		fmt.Fprintf(&out, "servers %v\n", r.ServerCDF())
		return out.String()
	})
}

func parse(t *testing.T, text string) (servers []cluster.Server, log []cluster.Reimage) {
	for line := range strings.Lines(text) {
		a, b, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at, err := time.Parse(time.DateOnly, a); err == nil {
			log = append(log, cluster.Reimage{At: at, Server: cluster.ServerID(b)})
			continue
		}
		environment, function, ok := strings.Cut(b, "/")
		if !ok {
			t.Fatalf("%q: want environment/function", line)
		}
		servers = append(servers, cluster.Server{ID: cluster.ServerID(a), Environment: environment, Function: function})
	}
	return servers, log
}

func TestGroupsAreOfEqualSizeEachMonth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var servers []cluster.Server
		tenants := rapid.IntRange(1, 12).Draw(t, "tenants")
		for i := range tenants {
			for k := range rapid.IntRange(1, 3).Draw(t, "servers") {
				servers = append(servers, cluster.Server{ID: cluster.ServerID(fmt.Sprintf("s%d-%d", i, k)), Environment: fmt.Sprint("e", i)})
			}
		}
		var log []cluster.Reimage
		start := time.Date(2020, 1, 15, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(0, 60).Draw(t, "reimages") {
			s := rapid.SampledFrom(servers).Draw(t, "server")
			log = append(log, cluster.Reimage{At: start.AddDate(0, 0, rapid.IntRange(0, 400).Draw(t, "day")), Server: s.ID})
		}
		different := map[cluster.Reimage]bool{}
		for _, e := range log {
			different[e] = true
		}
		r := Analyse(servers, log)
		total := 0
		for m := range r.Months {
			var size [groups]int
			for _, tenant := range r.Tenants {
				size[tenant.ByMonth[m]]++
			}
			if slices.Max(size[:])-slices.Min(size[:]) > 1 {
				t.Fatalf("month %d: groups of %v", m, size)
			}
		}
		for _, tenant := range r.Tenants {
			total += tenant.Reimages
		}
		if total != len(different) || r.Reimages != len(different) {
			t.Fatalf("%d reimages by tenant, %d in all, %d different ones in the log", total, r.Reimages, len(different))
		}

		shuffled := slices.Clone(log)
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := Analyse(servers, shuffled); !reflect.DeepEqual(r, again) {
			t.Fatal("the order of the log changed the report")
		}
	})
}

func TestAt(t *testing.T) {
	points := cdf([]float64{0, 0, 1, 2})
	for _, tc := range []struct{ v, want float64 }{{-1, 0}, {0, 0.5}, {0.5, 0.5}, {1, 0.75}, {2, 1}, {9, 1}} {
		if got := At(points, tc.v); got != tc.want {
			t.Errorf("At(%v) = %v, want %v", tc.v, got, tc.want)
		}
	}
}
