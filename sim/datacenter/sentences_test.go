package datacenter

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
)

// Every sentence of the paper about the ten datacenters is checked against what
// is generated. A test is named after its sentence.

// ten are of full size, but without utilisation; tenUsed have a month of it, on 1,000 servers each.
var (
	ten     = sync.OnceValue(func() []*Datacenter { return generateTen(Options{Seed: 1}) })
	tenUsed = sync.OnceValue(func() []*Datacenter { return generateTen(Options{Servers: 1000, Past: 31, Seed: 1}) })
)

func generateTen(o Options) (out []*Datacenter) {
	for _, p := range Profiles() {
		out = append(out, Generate(p, o))
	}
	return out
}

func eachUsed(t *testing.T, check func(t *testing.T, d *Datacenter)) {
	t.Helper()
	for _, d := range tenUsed() {
		t.Run(d.Name, func(t *testing.T) { check(t, d) })
	}
}

func each(t *testing.T, check func(t *testing.T, d *Datacenter)) {
	t.Helper()
	for _, d := range ten() {
		t.Run(d.Name, func(t *testing.T) { check(t, d) })
	}
}

// §3.1
func TestEachDatacenterHasAFewHundredToAFewThousandTenants(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		if n := len(d.Tenants); n < 300 || n > 4000 {
			t.Errorf("%d tenants", n)
		}
	})
}

// §1, §6.1
func TestThousandsToTensOfThousandsOfServers(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		p, err := Find(d.Name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(d.Servers); n != p.Servers || n < 2000 || n > 50000 {
			t.Errorf("%d servers, the profile says %d", n, p.Servers)
		}
	})
}

// §3.1
func TestATenantIsAnEnvironmentAndAMachineFunction(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		seen := map[cluster.TenantID]bool{}
		for i, tenant := range d.Tenants {
			if seen[tenant.ID] {
				t.Errorf("%s occurs twice", tenant.ID)
			}
			seen[tenant.ID] = true
			for _, s := range tenant.Servers {
				if d.Servers[s].Tenant() != tenant.ID || d.Owner[s] != int32(i) {
					t.Errorf("server %s is not of %s", d.Servers[s].ID, tenant.ID)
				}
			}
		}
	})
}

// §6.1
func TestServersHaveTwelveCoresAndThirtyTwoGB(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		for _, s := range d.Servers {
			if s.CPU != 12000 || s.Memory != 32<<30 || s.Disk == 0 || s.Rack == "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// shape is the variation of a tenant's utilisation over time relative to its mean,
// and the share of that variation at whole numbers of cycles a day, from every
// thirtieth slot.
func shape(d *Datacenter, tenant int) (variation, daily float64) {
	server := int(d.Tenants[tenant].Servers[0])
	var u []float64
	for slot := 0; slot < d.Window.Len; slot += 30 {
		u = append(u, float64(d.CPU(server, slot)))
	}
	mean := 0.0
	for _, v := range u {
		mean += v / float64(len(u))
	}
	power := 0.0
	for _, v := range u {
		power += (v - mean) * (v - mean)
	}
	days := d.Window.Len / 720
	for harmonic := 1; harmonic <= 3; harmonic++ {
		var re, im float64
		for i, v := range u {
			angle := 2 * math.Pi * float64(harmonic*days*i) / float64(len(u))
			re += (v - mean) * math.Cos(angle)
			im += (v - mean) * math.Sin(angle)
		}
		daily += 2 * (re*re + im*im) / float64(len(u)) / power
	}
	return math.Sqrt(power/float64(len(u))) / mean, daily
}

// §3.2, Fig 1
func TestPeriodicTenantsShowAStrongSignalAtTheDay(t *testing.T) {
	eachUsed(t, func(t *testing.T, d *Datacenter) {
		for i, tenant := range d.Tenants {
			variation, daily := shape(d, i)
			switch tenant.Pattern {
			case cluster.Periodic:
				if daily < 0.5 || variation < 0.05 {
					t.Errorf("%s: %.0f%% of its variation is daily, variation %.3f", tenant.ID, 100*daily, variation)
				}
			case cluster.Constant:
				if variation > 0.06 {
					t.Errorf("%s varies by %.3f of its mean", tenant.ID, variation)
				}
			case cluster.Unpredictable:
				if daily > 0.3 {
					t.Errorf("%s: %.0f%% of its variation is daily", tenant.ID, 100*daily)
				}
			}
		}
	})
}

// §3.2, Fig 1d
func TestUnpredictableSignalComesFromEventsThatRarelyHappen(t *testing.T) {
	eachUsed(t, func(t *testing.T, d *Datacenter) {
		rising := 0
		total := 0
		for i, tenant := range d.Tenants {
			if tenant.Pattern != cluster.Unpredictable || total == 8 {
				continue
			}
			total++
			low, high := band(d, i, 1, 30), band(d, i, 32, 300)
			if high > low {
				rising++
			}
		}
		if rising > 0 {
			t.Errorf("%d of %d unpredictable tenants have more signal above a cycle a day than below", rising, total)
		}
	})
}

// band is the power of a tenant's utilisation between two frequencies, in cycles a window.
func band(d *Datacenter, tenant, from, to int) float64 {
	server := int(d.Tenants[tenant].Servers[0])
	sum := 0.0
	for f := from; f <= to; f++ {
		var re, im float64
		for slot := 0; slot < d.Window.Len; slot += 30 {
			angle := 2 * math.Pi * float64(f) * float64(slot) / float64(d.Window.Len)
			u := float64(d.CPU(server, slot))
			re += u * math.Cos(angle)
			im += u * math.Sin(angle)
		}
		sum += re*re + im*im
	}
	return sum
}

func patternShares(d *Datacenter) (tenants, servers map[cluster.Pattern]float64) {
	tenants, servers = map[cluster.Pattern]float64{}, map[cluster.Pattern]float64{}
	for _, t := range d.Tenants {
		tenants[t.Pattern] += 1 / float64(len(d.Tenants))
		servers[t.Pattern] += float64(len(t.Servers)) / float64(len(d.Servers))
	}
	return tenants, servers
}

// §3.2, Fig 2
func TestPeriodicTenantsAreASmallMinorityAndTheVastMajorityIsConstant(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		tenants, _ := patternShares(d)
		if tenants[cluster.Periodic] > 0.15 || tenants[cluster.Constant] < 0.6 {
			t.Errorf("shares of tenants: %v", tenants)
		}
	})
}

// §3.2, Fig 3
func TestPeriodicTenantsHoldAboutFortyPercentOfServersOnAverage(t *testing.T) {
	sum := 0.0
	for _, d := range ten() {
		_, servers := patternShares(d)
		sum += servers[cluster.Periodic] / 10
	}
	if math.Abs(sum-0.40) > 0.02 {
		t.Errorf("%.1f%% on average", 100*sum)
	}
}

// §3.2
func TestNonPeriodicTenantsAreMoreThanHalfOfTenantsAndServers(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		tenants, servers := patternShares(d)
		if tenants[cluster.Periodic] >= 0.5 || servers[cluster.Periodic] >= 0.5 {
			t.Errorf("periodic: %.0f%% of tenants, %.0f%% of servers", 100*tenants[cluster.Periodic], 100*servers[cluster.Periodic])
		}
	})
}

// §3.2
func TestAboutThreeQuartersOfServersArePredictable(t *testing.T) {
	sum := 0.0
	for _, d := range ten() {
		_, servers := patternShares(d)
		predictable := servers[cluster.Periodic] + servers[cluster.Constant]
		if predictable < 0.65 || predictable > 0.85 {
			t.Errorf("%s: %.0f%%", d.Name, 100*predictable)
		}
		sum += predictable / 10
	}
	if math.Abs(sum-0.75) > 0.02 {
		t.Errorf("%.1f%% on average", 100*sum)
	}
}

// §3.2
func TestLoadIsNotAlwaysEvenlyBalancedAcrossATenantsServers(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		for _, tenant := range d.Tenants {
			if len(tenant.Servers) < 10 {
				continue
			}
			low, high := float32(2), float32(0)
			for _, s := range tenant.Servers {
				low, high = min(low, d.share[s]), max(high, d.share[s])
			}
			if high-low < 0.05 {
				t.Errorf("%s: its servers' loads lie between %.2f and %.2f of the average", tenant.ID, low, high)
			}
		}
	})
}

// §6.4
func TestDC0AndDC2VaryLeastAndDC1AndDC4Most(t *testing.T) {
	variation := map[string]float64{}
	var names []string
	for _, d := range tenUsed() {
		for i, tenant := range d.Tenants {
			v, _ := shape(d, i)
			variation[d.Name] += v * float64(len(tenant.Servers)) / float64(len(d.Servers))
		}
		names = append(names, d.Name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(variation[a], variation[b]) })
	least, most := names[:2], names[8:]
	slices.Sort(least)
	slices.Sort(most)
	if !slices.Equal(least, []string{"DC-0", "DC-2"}) || !slices.Equal(most, []string{"DC-1", "DC-4"}) {
		t.Errorf("from least to most: %v (%v)", names, variation)
	}
}

func start(d *Datacenter) time.Time { return d.Now.Add(-pastMonths * Month) }
func end(d *Datacenter) time.Time   { return d.Now.Add(futureMonths * Month) }

func serverRates(d *Datacenter) []float64 {
	rates := make([]float64, len(d.Servers))
	for _, r := range d.Reimages {
		rates[r.Server]++
	}
	for i := range rates {
		born := d.Tenants[d.Owner[i]].Born
		if born.IsZero() {
			born = start(d)
		}
		rates[i] /= float64(end(d).Sub(born)) / float64(Month)
	}
	return rates
}

func shareAtMost(rates []float64, limit float64) float64 {
	n := 0
	for _, r := range rates {
		if r <= limit {
			n++
		}
	}
	return float64(n) / float64(len(rates))
}

// §3.3, Fig 4
func TestAtLeastNinetyPercentOfServersAreReimagedOnceOrFewerAMonth(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		share := shareAtMost(serverRates(d), 1)
		if share < 0.90 {
			t.Errorf("%.1f%%", 100*share)
		}
		t.Logf("%.1f%%", 100*share)
	})
}

// §3.3, Fig 5
func TestAtLeastEightyPercentOfTenantsAreReimagedOnceOrFewerPerServerAMonth(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		share := shareAtMost(d.ReimageRates(start(d), end(d)), 1)
		if share < 0.80 {
			t.Errorf("%.1f%%", 100*share)
		}
		t.Logf("%.1f%%", 100*share)
	})
}

// §3.3: "a significant tail of servers (10%) and primary tenants (20%) that are
// reimaged relatively frequently": at several times the median.
func TestATailOfTenPercentOfServersAndTwentyOfTenantsIsReimagedFrequently(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		for _, tail := range []struct {
			of    string
			rates []float64
			share float64
		}{{"servers", serverRates(d), 0.10}, {"tenants", d.ReimageRates(start(d), end(d)), 0.20}} {
			slices.Sort(tail.rates)
			n := float64(len(tail.rates))
			median, high := tail.rates[int(n/2)], tail.rates[int(n*(1-tail.share))]
			if high < 2*median || high < 0.3 {
				t.Errorf("%s: median %.2f, tail from %.2f", tail.of, median, high)
			}
			t.Logf("%s: median %.3f, tail from %.2f", tail.of, median, high)
		}
	})
}

// §3.3: "Figure 5 does not show nearly vertical lines".
func TestTenantsReimageFrequenciesAreDiverse(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		rates := d.ReimageRates(start(d), end(d))
		slices.Sort(rates)
		for q := 0.3; q < 0.95; q += 0.1 {
			low, high := rates[int(q*float64(len(rates)))], rates[int((q+0.099)*float64(len(rates)))]
			if high < 1.03*low {
				t.Errorf("a tenth of the tenants at %.0f%% lies between %.3f and %.3f", 100*q, low, high)
			}
		}
	})
}

// §3.3
func TestThreeDatacentersShowSubstantiallyLowerRatesPerServer(t *testing.T) {
	means := map[string]float64{}
	var names []string
	for _, d := range ten() {
		for _, r := range serverRates(d) {
			means[d.Name] += r / float64(len(d.Servers))
		}
		names = append(names, d.Name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(means[a], means[b]) })
	if means[names[2]] > 0.7*means[names[3]] {
		t.Errorf("reimages per server and month: %v", means)
	}
	t.Logf("reimages per server and month: %v", means)
}

// §3.3
func TestTenantsReimageAlikeAcrossDatacenters(t *testing.T) {
	low, high := 10.0, 0.0
	for _, d := range ten() {
		rates := d.ReimageRates(start(d), end(d))
		slices.Sort(rates)
		median := rates[len(rates)/2]
		low, high = min(low, median), max(high, median)
	}
	if high > 2*low {
		t.Errorf("the tenants' median rates lie between %.2f and %.2f", low, high)
	}
}

// monthly returns every tenant's reimages per server in each month.
func monthly(d *Datacenter) [][]float64 {
	out := make([][]float64, pastMonths+futureMonths)
	for m := range out {
		out[m] = make([]float64, len(d.Tenants))
	}
	for _, r := range d.Reimages {
		if m := int(r.At.Sub(start(d)) / Month); m < len(out) {
			out[m][d.Owner[r.Server]] += 1 / float64(len(d.Tenants[d.Owner[r.Server]].Servers))
		}
	}
	return out
}

// §3.3: "there is substantial variation, as frequencies sometimes change substantially".
func TestFrequenciesChangeSubstantiallyFromMonthToMonth(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		months := monthly(d)
		changed, seen := 0, 0
		for i := range d.Tenants {
			for m := 1; m < len(months); m++ {
				before, after := months[m-1][i], months[m][i]
				if before+after == 0 {
					continue
				}
				seen++
				if max(before, after) >= 2*min(before, after) {
					changed++
				}
			}
		}
		if share := float64(changed) / float64(seen); share < 0.15 {
			t.Errorf("only %.0f%% of months differ twofold from the month before", 100*share)
		}
	})
}

// §3.3, Fig 6
func TestAtLeastEightyPercentOfTenantsChangeGroupEightOrFewerOf35Times(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		changes := make([]int, len(d.Tenants))
		var before, order []int
		for _, rates := range monthly(d) {
			var groups []int
			groups, order = thirds(rates, order)
			for i := range before {
				if groups[i] != before[i] {
					changes[i]++
				}
			}
			before = groups
		}
		few := 0
		for _, n := range changes {
			if n <= 8 {
				few++
			}
		}
		share := float64(few) / float64(len(changes))
		if share < 0.80 {
			t.Errorf("%.1f%%", 100*share)
		}
		t.Logf("%.1f%%", 100*share)
	})
}

// thirds groups tenants into infrequent, intermediate and frequent, equally
// many each. Equals keep the order they were in before.
func thirds(rates []float64, order []int) (groups, sorted []int) {
	if order == nil {
		for i := range rates {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rates[a], rates[b]) })
	groups = make([]int, len(rates))
	for rank, i := range order {
		groups[i] = rank * 3 / len(rates)
	}
	return groups, order
}

// §3.3
func TestReimagesAreOftenCorrelated(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		together := 0
		for i := 0; i < len(d.Reimages); {
			j := i
			byTenant := map[int32]int{}
			for ; j < len(d.Reimages) && d.Reimages[j].At.Sub(d.Reimages[i].At) < time.Hour; j++ {
				byTenant[d.Owner[d.Reimages[j].Server]]++
			}
			for _, n := range byTenant {
				if n >= 3 {
					together += n
				}
			}
			i = j
		}
		if share := float64(together) / float64(len(d.Reimages)); share < 0.15 {
			t.Errorf("only %.0f%% of reimages come with others of their tenant within an hour", 100*share)
		}
	})
}

// §3.3, Fig 5: "discontinuities in this figure are due to short-lived primary tenants".
func TestSomeTenantsAreShortLived(t *testing.T) {
	each(t, func(t *testing.T, d *Datacenter) {
		young := 0
		for _, tenant := range d.Tenants {
			if !tenant.Born.IsZero() {
				young++
			}
		}
		if young == 0 || young > len(d.Tenants)/5 {
			t.Errorf("%d of %d", young, len(d.Tenants))
		}
	})
}
