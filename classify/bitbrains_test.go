package classify

import (
	"bufio"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
)

// bitbrains reads one month of real machines, each a tenant of its own.
func bitbrains(t *testing.T, month string) (cluster.Window, []cluster.Series) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "shared", "data", "bitbrains", month+".csv.gz"))
	if err != nil {
		t.Skip("real data not at hand:", err)
	}
	defer file.Close()
	gz, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	start, err := time.Parse("2006-01", month)
	if err != nil {
		t.Fatal(err)
	}
	w := cluster.Window{From: start, Step: 5 * time.Minute}
	w.Len = int(start.AddDate(0, 1, 0).Sub(start) / w.Step)
	byServer := map[string][]float32{}
	lines := bufio.NewScanner(gz)
	lines.Scan() // the header
	for lines.Scan() {
		at, rest, _ := strings.Cut(lines.Text(), ",")
		server, percent, _ := strings.Cut(rest, ",")
		unix, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		cpu, err := strconv.ParseFloat(percent, 32)
		if err != nil {
			t.Fatal(err)
		}
		if byServer[server] == nil {
			byServer[server] = slices.Repeat([]float32{float32(math.NaN())}, w.Len)
		}
		if slot := (unix - start.Unix()) / 300; slot >= 0 && slot < int64(w.Len) {
			byServer[server][slot] = float32(cpu) / 100
		}
	}
	var series []cluster.Series
	for server, cpu := range byServer {
		series = append(series, cluster.Series{Tenant: cluster.TenantID(server), Servers: 1, CPU: cpu})
	}
	return w, series
}

func TestClassesCarryForward(t *testing.T) {
	july, before := bitbrains(t, "2013-07")
	august, next := bitbrains(t, "2013-08")
	was, is := Run(july, before, Options{}), Run(august, next, Options{})
	c := Carry(was, is, next)
	for _, k := range was.Classes {
		t.Logf("%-18s %3d tenants mean %.3f peak %.3f period %s", k.ID, len(k.Tenants), k.Mean, k.Peak, k.Period)
	}
	peak, own := 0.0, 0.0
	for _, k := range was.Classes {
		peak += k.Peak * float64(k.Servers) / float64(len(was.Tenants))
	}
	for _, x := range was.Tenants {
		own += x.Peak / float64(len(was.Tenants))
	}
	t.Logf("July's machines peak at %.3f on average, their classes at %.3f", own, peak)
	if c.UnderShare() < 0.95 || c.KeptShare() < 0.7 {
		t.Errorf("classes do not carry forward: %+v", c)
	}
	t.Logf("%d classes; skipped %d, as %v", len(was.Classes), len(was.Skipped), was.Skipped[:min(2, len(was.Skipped))])
	t.Logf("%d classes in August; skipped %d", len(is.Classes), len(is.Skipped))
	patterns := map[[2]cluster.Pattern]int{}
	for _, x := range was.Tenants {
		for _, y := range is.Tenants {
			if x.ID == y.ID {
				patterns[[2]cluster.Pattern{x.Pattern, y.Pattern}]++
			}
		}
	}
	for _, p := range cluster.Patterns {
		for _, q := range cluster.Patterns {
			t.Logf("%s in July, %s in August: %d", p, q, patterns[[2]cluster.Pattern{p, q}])
		}
	}
	t.Logf("%.1f%% of %d samples under the peak; %.1f%% of %d machines keep their pattern", 100*c.UnderShare(), c.Samples, 100*c.KeptShare(), c.Tenants)
}
