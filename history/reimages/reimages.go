// Package reimages tells how often servers and tenants are reimaged, and
// whether those reimaged often in one month are reimaged often in the next
// (OSDI'16 §3.3).
//
// A month is a calendar month in UTC. Each month the tenants are ranked by
// their reimages per server and divided into three groups of equal size. If the
// rates over the whole time are equal, the order of names decides, and the report
// tells for how many tenants. In most months most tenants have no reimage at all;
// tenants with equal rates in a month keep the order that they had, so a tie
// changes no group.
package reimages

import (
	"cmp"
	"slices"
	"time"

	"gleaner/cluster"
)

// A Group is a third of the tenants by how often they are reimaged.
type Group int

// The groups, from the least often reimaged to the most.
const (
	Infrequent Group = iota
	Intermediate
	Frequent
	groups
)

func (g Group) String() string { return [...]string{"infrequent", "intermediate", "frequent"}[g] }

// MarshalText writes the group by name.
func (g Group) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// A Server is how often one server was reimaged.
type Server struct {
	ID       cluster.ServerID
	Tenant   cluster.TenantID
	Reimages int
	PerMonth float64
}

// A Tenant is how often the servers of one tenant were reimaged.
type Tenant struct {
	ID       cluster.TenantID
	Servers  int
	Reimages int
	PerMonth float64 // reimages per server and month
	Group    Group   // over the whole time
	ByMonth  []Group // month by month
	Changes  int     // from one month to the next
}

// A Report is what a reimage log says about a cluster.
type Report struct {
	From, To time.Time // whole months
	Months   int
	Servers  []Server // by ID
	Tenants  []Tenant // by ID
	Reimages int
	Strays   int // reimages of servers that are not in the cluster; they are left out
	Tied     int // tenants grouped by name: a tenant with the same rate is in another group
}

// Analyse reports on the reimages of the given servers, over the calendar
// months from the first to the last. The order of the log does not matter, and
// two reimages of a server at one moment count as one.
func Analyse(servers []cluster.Server, log []cluster.Reimage) Report {
	var r Report
	byServer := map[cluster.ServerID]int{} // index in r.Servers
	byTenant := map[cluster.TenantID]int{} // index in r.Tenants
	for _, s := range sortedServers(servers) {
		byServer[s.ID] = len(r.Servers)
		r.Servers = append(r.Servers, Server{ID: s.ID, Tenant: s.Tenant()})
		if _, known := byTenant[s.Tenant()]; !known {
			byTenant[s.Tenant()] = -1
			r.Tenants = append(r.Tenants, Tenant{ID: s.Tenant()})
		}
	}
	slices.SortFunc(r.Tenants, func(a, b Tenant) int { return cmp.Compare(a.ID, b.ID) })
	for i, t := range r.Tenants {
		byTenant[t.ID] = i
	}
	for _, s := range r.Servers {
		r.Tenants[byTenant[s.Tenant]].Servers++
	}

	log = distinct(log)
	known := slices.DeleteFunc(log, func(e cluster.Reimage) bool { _, ok := byServer[e.Server]; return !ok })
	r.Reimages, r.Strays = len(known), len(log)-len(known)
	r.span(known)
	monthly := make([][]int, r.Months) // reimages by month and tenant
	for m := range monthly {
		monthly[m] = make([]int, len(r.Tenants))
	}
	for _, e := range known {
		i := byServer[e.Server]
		r.Servers[i].Reimages++
		tenant := byTenant[r.Servers[i].Tenant]
		r.Tenants[tenant].Reimages++
		monthly[monthsBetween(r.From, e.At)][tenant]++
	}
	r.rates()
	r.group(monthly)
	return r
}

func sortedServers(servers []cluster.Server) []cluster.Server {
	servers = slices.Clone(servers)
	slices.SortFunc(servers, func(a, b cluster.Server) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(servers, func(a, b cluster.Server) bool { return a.ID == b.ID })
}

func distinct(log []cluster.Reimage) []cluster.Reimage {
	log = slices.Clone(log)
	slices.SortStableFunc(log, func(a, b cluster.Reimage) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Server, b.Server)) })
	return slices.CompactFunc(log, func(a, b cluster.Reimage) bool { return a.At.Equal(b.At) && a.Server == b.Server })
}

// span sets the months that have reimages, from the first to the last.
func (r *Report) span(log []cluster.Reimage) {
	if len(log) == 0 {
		return
	}
	byTime := func(a, b cluster.Reimage) int { return a.At.Compare(b.At) }
	first, last := slices.MinFunc(log, byTime).At.UTC(), slices.MaxFunc(log, byTime).At.UTC()
	r.From = time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC)
	r.Months = monthsBetween(r.From, last) + 1
	r.To = r.From.AddDate(0, r.Months, 0)
}

// monthsBetween counts the calendar months from that of a to that of b.
func monthsBetween(a, b time.Time) int {
	a, b = a.UTC(), b.UTC()
	return (b.Year()-a.Year())*12 + int(b.Month()-a.Month())
}

func (r *Report) rates() {
	if r.Months == 0 {
		return
	}
	for i := range r.Servers {
		r.Servers[i].PerMonth = float64(r.Servers[i].Reimages) / float64(r.Months)
	}
	for i := range r.Tenants {
		t := &r.Tenants[i]
		t.PerMonth = float64(t.Reimages) / float64(r.Months) / float64(t.Servers)
	}
}

// group ranks the tenants over the whole time and month by month.
func (r *Report) group(monthly [][]int) {
	order := make([]int, len(r.Tenants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Tenants[a].PerMonth, r.Tenants[b].PerMonth) })
	for rank, i := range order {
		r.Tenants[i].Group = groupOf(rank, len(order))
	}
	r.Tied = r.countTied()
	for _, count := range monthly {
		perServer := func(i int) float64 { return float64(count[i]) / float64(r.Tenants[i].Servers) }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(perServer(a), perServer(b)) })
		for rank, i := range order {
			t := &r.Tenants[i]
			g := groupOf(rank, len(order))
			if n := len(t.ByMonth); n > 0 && t.ByMonth[n-1] != g {
				t.Changes++
			}
			t.ByMonth = append(t.ByMonth, g)
		}
	}
}

// countTied counts the tenants whose rate occurs in several groups.
func (r *Report) countTied() int {
	type seen struct {
		tenants     int
		first, last Group
	}
	byRate := map[float64]seen{}
	for _, t := range r.Tenants {
		s, ok := byRate[t.PerMonth]
		if !ok {
			s = seen{0, t.Group, t.Group}
		}
		byRate[t.PerMonth] = seen{s.tenants + 1, min(s.first, t.Group), max(s.last, t.Group)}
	}
	tied := 0
	for _, s := range byRate {
		if s.first != s.last {
			tied += s.tenants
		}
	}
	return tied
}

// groupOf divides n ranks into groups whose sizes differ by at most one.
func groupOf(rank, n int) Group { return Group(rank * int(groups) / n) }

// A Share is the share of all that is at most a value: a point of a CDF.
type Share struct {
	AtMost float64
	Share  float64
}

// ServerCDF is the distribution of reimages per month over the servers (Figure 4).
func (r Report) ServerCDF() []Share {
	values := make([]float64, len(r.Servers))
	for i, s := range r.Servers {
		values[i] = s.PerMonth
	}
	return cdf(values)
}

// TenantCDF is the distribution of reimages per server and month over the tenants (Figure 5).
func (r Report) TenantCDF() []Share {
	values := make([]float64, len(r.Tenants))
	for i, t := range r.Tenants {
		values[i] = t.PerMonth
	}
	return cdf(values)
}

// ChangesCDF is the distribution of group changes over the tenants (Figure 6).
func (r Report) ChangesCDF() []Share {
	values := make([]float64, len(r.Tenants))
	for i, t := range r.Tenants {
		values[i] = float64(t.Changes)
	}
	return cdf(values)
}

// cdf gives one point for each distinct value, in rising order.
func cdf(values []float64) []Share {
	slices.Sort(values)
	var points []Share
	for i, v := range values {
		if i+1 == len(values) || values[i+1] != v {
			points = append(points, Share{AtMost: v, Share: float64(i+1) / float64(len(values))})
		}
	}
	return points
}

// At gives the share of all that is at most v.
func At(cdf []Share, v float64) float64 {
	share := 0.0
	for _, p := range cdf {
		if p.AtMost > v {
			break
		}
		share = p.Share
	}
	return share
}
