package datacenter

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/cluster"
)

// Options say how much of a datacenter to generate.
type Options struct {
	Servers int // 0: as many as the profile has; tenants and environments shrink with them
	Past    int // days of utilisation before Now
	Days    int // days of utilisation from Now on
	Seed    uint64
}

// FewestServers and MostServers bound what Generate makes.
const (
	FewestServers = 50
	MostServers   = 200_000
)

// now is when a generated past ends. It is a Monday, so that weeks align.
var now = time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)

// Reimages are generated for three years (OSDI'16 §3.3): two to learn from, and
// one that is simulated.
const (
	pastMonths   = 24
	futureMonths = 12
)

// Generate makes a datacenter like the profile.
func Generate(p Profile, o Options) *Datacenter {
	p = p.shrunk(o.Servers)
	d := &Datacenter{Name: p.Name, Now: now, noise: float32(p.Utilisation.Noise)}
	g := &generator{Profile: p, d: d, seed: o.Seed}
	d.seed = g.chance("jitter", 0).Uint64()
	g.tenants()
	g.servers()
	from := now.AddDate(0, 0, -o.Past)
	d.Window = cluster.Window{From: from, Step: Slot, Len: (o.Past + o.Days) * int(24*time.Hour/Slot)}
	g.utilisation()
	g.reimages()
	return d
}

// shrunk is the profile with this many servers, and tenants and environments in
// proportion, but never too few of them to differ.
func (p Profile) shrunk(servers int) Profile {
	if servers == 0 || servers == p.Servers {
		return p
	}
	ratio := float64(servers) / float64(p.Servers)
	p.Servers = servers
	p.Tenants = min(max(int(math.Round(float64(p.Tenants)*ratio)), 60), servers*3/10)
	p.Environments = min(max(int(math.Round(float64(p.Environments)*ratio)), 24), p.Tenants/2)
	return p
}

type generator struct {
	Profile
	d    *Datacenter
	seed uint64
	use  []use // of each tenant's environment
}

type use uint8

const (
	productionUse use = iota
	developmentUse
	testUse
)

var useNames = [...]string{"prod", "dev", "test"}

// chance returns a separate generator for each purpose and item, so that no draw
// depends on the number of others.
func (g *generator) chance(purpose string, item int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", g.Name, purpose, item)
	return rand.New(rand.NewPCG(g.seed, h.Sum64()))
}

// tenants draws the tenants: their patterns, environments and sizes.
func (g *generator) tenants() {
	counts := apportion(g.Tenants, []float64{g.TenantsByPattern.Periodic, g.TenantsByPattern.Constant, g.TenantsByPattern.Unpredictable}, 1, g.Tenants)
	servers := apportion(g.Servers, []float64{g.ServersByPattern.Periodic, g.ServersByPattern.Constant, g.ServersByPattern.Unpredictable}, 1, g.Servers)
	r := g.chance("tenants", 0)
	environments := g.environments(r)
	for i, pattern := range cluster.Patterns {
		weights := make([]float64, counts[i])
		for j := range weights {
			weights[j] = math.Exp(g.SizeSigma * r.NormFloat64())
		}
		largest := max(int(g.LargestTenant*float64(g.Servers)), (servers[i]+counts[i]-1)/counts[i])
		for _, size := range apportion(servers[i], weights, 1, largest) {
			g.tenant(r, pattern, size, environments)
		}
	}
}

type environment struct {
	name      string
	functions []int // not taken yet
}

// functions are machine functions; a pair of environment and function is a tenant.
var functions = []string{
	"frontend", "ranking", "index", "cache", "crawler", "scrubber", "answers", "ads", "images", "maps", "news", "speech",
	"profile", "session", "logs", "metrics", "queue", "builder", "deploy", "gateway", "mail", "search", "store", "video",
	"analytics", "billing", "features", "graph", "spelling", "weather", "audit", "backup", "catalog", "dns", "export", "feed",
}

func (g *generator) environments(r *rand.Rand) [3][]*environment {
	counts := apportion(g.Profile.Environments, []float64{g.Uses.Production, g.Uses.Development, g.Uses.Testing}, 1, g.Profile.Environments)
	var out [3][]*environment
	for use, n := range counts {
		for i := range n {
			out[use] = append(out[use], &environment{name: fmt.Sprintf("%s-%03d", useNames[use], i+1), functions: r.Perm(len(functions))})
		}
	}
	return out
}

func (g *generator) tenant(r *rand.Rand, pattern cluster.Pattern, size int, environments [3][]*environment) {
	u := productionUse
	if r.Float64() >= g.Production.of(pattern) {
		u = developmentUse
		if r.Float64() < g.Uses.Testing/(g.Uses.Development+g.Uses.Testing) {
			u = testUse
		}
	}
	env := pick(r, environments[u])
	t := Tenant{Environment: env.name, Function: functions[env.functions[0]], Pattern: pattern, Servers: make([]int32, size)}
	env.functions = env.functions[1:]
	t.ID = cluster.TenantOf(t.Environment, t.Function)
	g.d.Tenants = append(g.d.Tenants, t)
	g.use = append(g.use, u)
}

// pick chooses an environment that has a function left.
func pick(r *rand.Rand, from []*environment) *environment {
	for {
		if e := from[r.IntN(len(from))]; len(e.functions) > 0 {
			return e
		}
	}
}

// servers fills the racks: each tenant gets blocks of neighbouring servers, in shuffled order.
func (g *generator) servers() {
	type block struct{ tenant, servers int }
	var blocks []block
	total := 0
	for i, t := range g.d.Tenants {
		for left := len(t.Servers); left > 0; left -= g.RunServers {
			blocks = append(blocks, block{i, min(left, g.RunServers)})
		}
		total += len(t.Servers)
		g.d.Tenants[i].Servers = make([]int32, 0, len(t.Servers))
	}
	r := g.chance("servers", 0)
	r.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	disk := make([]cluster.Bytes, len(g.d.Tenants))
	for i := range disk {
		disk[i] = cluster.Bytes(g.DiskGB[r.IntN(len(g.DiskGB))]) * 1e9
	}
	for _, block := range blocks {
		t := &g.d.Tenants[block.tenant]
		for range block.servers {
			i := len(g.d.Servers)
			g.d.Servers = append(g.d.Servers, cluster.Server{
				ID:          cluster.ServerID(fmt.Sprintf("s%05d", i+1)),
				Environment: t.Environment, Function: t.Function,
				Rack: fmt.Sprintf("r%03d", i/g.RackServers+1),
				CPU:  cluster.MilliCPU(g.Cores) * 1000, Memory: cluster.Bytes(g.MemoryGB) << 30, Disk: disk[block.tenant],
			})
			g.d.Owner = append(g.d.Owner, int32(block.tenant))
			t.Servers = append(t.Servers, int32(i))
		}
	}
	g.d.share = make([]float32, total)
	for i := range g.d.Tenants {
		g.imbalance(r, g.d.Tenants[i].Servers)
	}
}

// imbalance draws how a tenant's load is spread over its servers; the mean is 1.
func (g *generator) imbalance(r *rand.Rand, servers []int32) {
	sum := 0.0
	for _, s := range servers {
		v := max(1+g.Utilisation.Imbalance*r.NormFloat64(), 0.2)
		g.d.share[s] = float32(v)
		sum += v
	}
	for _, s := range servers {
		g.d.share[s] *= float32(float64(len(servers)) / sum)
	}
}

// apportion splits total by weights into whole numbers between least and most,
// as near the weights as that allows; the numbers add up to total unless the
// bounds forbid it.
func apportion(total int, weights []float64, least, most int) []int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	out := make([]int, len(weights))
	given := 0
	order := make([]int, len(weights))
	for i, w := range weights {
		out[i] = min(max(int(float64(total)*w/sum), least), most)
		given += out[i]
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for moved := true; given != total && moved; {
		moved = false
		for _, i := range order {
			switch {
			case given < total && out[i] < most:
				out[i]++
				given++
				moved = true
			case given > total && out[i] > least:
				out[i]--
				given--
				moved = true
			}
		}
	}
	return out
}
