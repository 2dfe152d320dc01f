package datacenter

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// reimages draws three years of reimages (OSDI'16 §3.3): redeployed tenants,
// repurposed environments, tests of resilience in turn, maintenance by chance.
func (g *generator) reimages() {
	start := now.Add(-pastMonths * Month)
	months := pastMonths + futureMonths
	common := make([]float64, months)
	r := g.chance("months", 0)
	sigma := g.Reimages.MonthSigma
	for m := range common {
		common[m] = math.Exp(sigma*r.NormFloat64() - sigma*sigma/2)
	}
	rates, third := g.tenantRates()
	for i := range g.d.Tenants {
		g.tenantReimages(g.chance("reimages", i), i, rates[i], g.Reimages.RedeployShare[third[i]], start, common)
	}
	g.repurposed(g.chance("repurposed", 0), start, months)
	slices.SortStableFunc(g.d.Reimages, func(a, b Reimage) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Server, b.Server))
	})
}

// tenantRates ranks the tenants and gives each the rate at its rank of the
// profile's distribution, and the third it ranks in. Those outside production, and small ones, rank higher.
func (g *generator) tenantRates() (rates []float64, third []int) {
	r := g.chance("rates", 0)
	n := len(g.d.Tenants)
	score := make([]float64, n)
	order := make([]int, n)
	for i, t := range g.d.Tenants {
		score[i] = r.NormFloat64() - g.SmallTenants*math.Log(float64(len(t.Servers)))
		if g.use[i] != productionUse {
			score[i] += g.Reimages.OutsideProduction
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[a], score[b]) })
	rates, third = make([]float64, n), make([]int, n)
	for rank, i := range order {
		third[i] = rank * 3 / n
		rates[i] = quantile(g.Reimages.Tenants, (float64(rank)+0.5)/float64(n))
	}
	return rates, third
}

// quantile reads a distribution given as points, rates on a logarithmic scale.
func quantile(points [][2]float64, q float64) float64 {
	i := 1
	for i < len(points)-1 && points[i][0] < q {
		i++
	}
	a, b := points[i-1], points[i]
	f := (q - a[0]) / (b[0] - a[0])
	return math.Exp(math.Log(a[1])*(1-f) + math.Log(b[1])*f)
}

func (g *generator) tenantReimages(r *rand.Rand, tenant int, rate, redeploys float64, start time.Time, common []float64) {
	t := &g.d.Tenants[tenant]
	first := 0
	if r.Float64() < g.Reimages.Young {
		first = 3 + r.IntN(pastMonths-6)
		t.Born = start.Add(time.Duration(first) * Month)
		g.wave(r, t.Servers, len(t.Servers), t.Born, Repurpose)
	}
	// Redeploys come in waves over the tenant; the rest server by server, in
	// turn. What is due carries over from month to month, which preserves a
	// tenant's rank.
	turn := r.Perm(len(t.Servers))
	redeploys = min(redeploys*g.Correlated, 1)
	wave := g.part(r, len(t.Servers))
	dueRedeploy, dueSingle := r.Float64()*float64(wave), r.Float64()
	for m := first; m < len(common); m++ {
		month := start.Add(time.Duration(m) * Month)
		due := rate * common[m] * math.Exp(g.Reimages.OwnSigma*r.NormFloat64()) * float64(len(t.Servers))
		for dueRedeploy += due * redeploys; dueRedeploy >= float64(wave); wave = g.part(r, len(t.Servers)) {
			dueRedeploy -= float64(wave)
			g.wave(r, t.Servers, wave, month.Add(during(r, Month)), Redeploy)
		}
		for dueSingle += due * (1 - redeploys); dueSingle >= 1; dueSingle-- {
			cause := Resilience
			if r.IntN(4) == 0 {
				cause = Maintenance
			}
			g.d.Reimages = append(g.d.Reimages, Reimage{month.Add(during(r, Month)), t.Servers[turn[0]], cause})
			turn = append(turn[1:], turn[0])
		}
	}
}

// part draws how many of a tenant's servers a redeploy reimages.
func (g *generator) part(r *rand.Rand, servers int) int {
	least := g.Reimages.RedeployLeast
	return max(int(math.Round((least+r.Float64()*(1-least))*float64(servers))), 1)
}

// wave reimages n of the servers within the minutes that a redeploy takes.
func (g *generator) wave(r *rand.Rand, servers []int32, n int, at time.Time, cause Cause) {
	length := time.Duration(g.Reimages.RedeployMinutes * float64(time.Minute))
	for _, i := range r.Perm(len(servers))[:n] {
		g.d.Reimages = append(g.d.Reimages, Reimage{at.Add(during(r, length)), servers[i], cause})
	}
}

// repurposed reimages all servers of an environment, in one wave.
func (g *generator) repurposed(r *rand.Rand, start time.Time, months int) {
	var names []string
	members := map[string][]int32{}
	for _, t := range g.d.Tenants {
		if members[t.Environment] == nil {
			names = append(names, t.Environment)
		}
		members[t.Environment] = append(members[t.Environment], t.Servers...)
	}
	slices.Sort(names)
	span := time.Duration(months) * Month
	for _, name := range names {
		for range poisson(r, g.Reimages.RepurposedAYear*g.Correlated*float64(months)/12) {
			g.wave(r, members[name], len(members[name]), start.Add(during(r, span)), Repurpose)
		}
	}
}

// during draws a moment of a span, to the second.
func during(r *rand.Rand, span time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(span/time.Second))) * time.Second
}

// poisson draws a Poisson number of this mean (Knuth's method: the means are small).
func poisson(r *rand.Rand, mean float64) int {
	n := 0
	for p := r.Float64(); p > math.Exp(-mean); p *= r.Float64() {
		n++
	}
	return n
}
