package placement

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"gleaner/cluster"
)

// TestScenarios plays the files of testdata: each a line of Algorithm 2, or what
// §7 adds to it.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				w = newScenario(t, d.Input)
				return w.showGrid()
			}
			return w.do(t, d)
		})
	})
}

// blockBytes is the size of a block: disks in these tests are a few blocks and a bit.
const blockBytes = 4 << 20

// A stocked server has one disk, with room for some blocks.
type stocked struct {
	Tenant int
	Rack   string
	Free   int
	Steady bool
}

func inventoryOf(tenants []Tenant, servers []stocked) *Inventory {
	inv := NewInventory(blockBytes)
	for _, t := range tenants {
		inv.AddTenant(t)
	}
	for i, s := range servers {
		inv.AddServer(Server{Tenant: TenantIndex(s.Tenant), Rack: s.Rack, Steady: s.Steady}, cluster.Bytes(s.Free)*blockBytes+cluster.Bytes(i%2))
	}
	return inv
}

type scenario struct {
	inv     *Inventory
	grid    *Grid
	rules   Rules
	names   []string // of servers
	tenants []string
	r       *rand.Rand
}

// newScenario reads one tenant a line: name env=… fn=… reimages=… peak=… free=… racks=r1,r2:
// a server in each of the racks.
func newScenario(t *testing.T, text string) scenario {
	w := scenario{rules: Paper, r: rand.New(rand.NewPCG(1, 1)), inv: NewInventory(blockBytes)}
	w.join(t, text)
	w.grid = NewGrid(w.inv, Paper)
	return w
}

// join adds tenants and their servers, which come with one disk each.
func (w *scenario) join(t *testing.T, text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		name, rest, _ := strings.Cut(line, " ")
		tenant := Tenant{Environment: name, Function: name}
		free, racks, steady := 10, name, false
		for _, field := range strings.Fields(rest) {
			key, value, _ := strings.Cut(field, "=")
			var err error
			switch key {
			case "env":
				tenant.Environment = value
			case "fn":
				tenant.Function = value
			case "racks":
				racks = value
			case "reimages":
				_, err = fmt.Sscan(value, &tenant.ReimageRate)
			case "peak":
				_, err = fmt.Sscan(value, &tenant.Peak)
			case "free":
				_, err = fmt.Sscan(value, &free)
			case "steady":
				_, err = fmt.Sscan(value, &steady)
			default:
				err = errors.New("unknown key")
			}
			if err != nil {
				t.Fatalf("%q: %s: %v", line, field, err)
			}
		}
		owner := w.inv.AddTenant(tenant)
		for i, rack := range strings.Split(racks, ",") {
			w.inv.AddServer(Server{Tenant: owner, Rack: rack, Steady: steady}, cluster.Bytes(free)*blockBytes)
			w.names = append(w.names, fmt.Sprintf("%s%d", name, i+1))
		}
		w.tenants = append(w.tenants, name)
	}
}

func (w *scenario) server(t *testing.T, name string) ServerIndex {
	if name == "outside" {
		return Nowhere
	}
	i := slices.Index(w.names, name)
	if i < 0 {
		t.Fatalf("no server %q", name)
	}
	return ServerIndex(i)
}

func (w *scenario) do(t *testing.T, d *datadriven.TestData) string {
	n, times := 1, 200
	d.MaybeScanArgs(t, "n", &n)
	d.MaybeScanArgs(t, "times", &times)
	switch d.Cmd {
	case "rules":
		w.rules = Rules{Hard: w.ruleSet(t, d, "hard"), Soft: w.ruleSet(t, d, "soft")}
		w.grid = NewGrid(w.inv, w.rules)
		return fmt.Sprintf("hard: %s, soft: %s", w.rules.Hard, w.rules.Soft)
	case "busy", "idle":
		for _, s := range w.named(t, d) {
			w.inv.SetBusy(s, d.Cmd == "busy")
		}
		return fmt.Sprintf("%d tenants have room", w.inv.Room())
	case "take":
		s := w.named(t, d)[0]
		for range n {
			w.inv.Take(s)
		}
		return fmt.Sprintf("%d fit on %s, %d tenants have room", w.inv.Free(s), w.names[s], w.inv.Room())
	case "release":
		s := w.named(t, d)[0]
		w.inv.Release(w.inv.disks[s][0], n)
		return fmt.Sprintf("%d fit on %s, %d tenants have room", w.inv.Free(s), w.names[s], w.inv.Room())
	case "join":
		w.join(t, d.Input)
		return w.showGrid()
	case "disk":
		s := w.named(t, d)[0]
		w.inv.AddDisk(s, cluster.Bytes(n)*blockBytes)
		return fmt.Sprintf("%d fit on %s", w.inv.Free(s), w.names[s])
	case "leave":
		for _, s := range w.named(t, d) {
			for len(w.inv.disks[s]) > 0 {
				w.inv.RemoveDisk(w.inv.disks[s][0])
			}
		}
		return w.showGrid()
	case "free":
		var mib int64
		d.ScanArgs(t, "mib", &mib)
		s := w.named(t, d)[0]
		w.inv.SetFree(w.inv.disks[s][0], cluster.Bytes(mib)<<20)
		return fmt.Sprintf("%d fit on %s, %d tenants have room", w.inv.Free(s), w.names[s], w.inv.Room())
	case "rebuild":
		w.grid = NewGrid(w.inv, w.rules)
		return w.showGrid()
	case "place":
		return w.place(t, d, n, times)
	case "quality":
		q := w.grid.Quality(w.servers(t, d.Input))
		return fmt.Sprintf("%+v: %.2f of the best by %s", q, q.Share(w.rules.Hard|w.rules.Soft), w.rules.Hard|w.rules.Soft)
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

// named are the servers of server=…, or all those of tenants=(…).
func (w *scenario) named(t *testing.T, d *datadriven.TestData) (out []ServerIndex) {
	for _, arg := range d.CmdArgs {
		for _, name := range arg.Vals {
			switch arg.Key {
			case "server":
				out = append(out, w.server(t, name))
			case "tenants":
				for s, owner := range w.inv.owner {
					if w.tenants[owner] == name {
						out = append(out, ServerIndex(s))
					}
				}
			}
		}
	}
	return out
}

func (w *scenario) ruleSet(t *testing.T, d *datadriven.TestData, key string) (set RuleSet) {
	var names []string
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			names = arg.Vals
		}
	}
	for _, name := range names {
		i := slices.Index(ruleNames, name)
		if i < 0 {
			t.Fatalf("no rule %q", name)
		}
		set |= 1 << i
	}
	return set
}

func (w *scenario) servers(t *testing.T, text string) (out []ServerIndex) {
	for _, name := range strings.Fields(text) {
		out = append(out, w.server(t, name))
	}
	return out
}

// place places a block many times, without booking, and lists by name the servers on
// which each replica was placed. How often is a matter for the tests of chance.
func (w *scenario) place(t *testing.T, d *datadriven.TestData, n, times int) string {
	var creator string
	d.ScanArgs(t, "creator", &creator)
	have := w.servers(t, d.Input)
	seen := make([]map[string]bool, n)
	gaveUp := map[string]bool{}
	for range times {
		placed, given, err := w.grid.PlaceBy(w.rules, slices.Clone(have), w.server(t, creator), n, w.r)
		if err != nil {
			return err.Error()
		}
		for i, s := range placed {
			if seen[i] == nil {
				seen[i] = map[string]bool{}
			}
			seen[i][w.names[s]] = true
		}
		gaveUp[given.String()] = true
	}
	var out strings.Builder
	for i, names := range seen {
		fmt.Fprintf(&out, "replica %d: %s\n", i+1, strings.Join(sorted(names), " "))
	}
	if w.rules.Soft != 0 {
		fmt.Fprintf(&out, "gave up: %s\n", strings.Join(sorted(gaveUp), ", "))
	}
	return out.String()
}

func sorted(set map[string]bool) (out []string) {
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// showGrid draws the cells with their tenants and space, the highest peaks on top;
// the fourth column where the rules make one.
func (w *scenario) showGrid() string {
	var out strings.Builder
	if w.grid.stale() {
		w.grid.divide()
	}
	space, _ := w.inv.space()
	for row := side - 1; row >= 0; row-- {
		for column := range columns {
			if w.grid.all&(1<<(column*side)) == 0 {
				continue
			}
			var names []string
			sum := int64(0)
			for _, t := range w.grid.cells[column*side+row] {
				names = append(names, w.tenants[t])
				sum += space[t]
			}
			fmt.Fprintf(&out, "| %-12s %3d ", strings.Join(names, " "), sum)
		}
		out.WriteString("|\n")
	}
	return out.String()
}

// drawCluster draws a small cluster, with few of everything so that rules conflict,
// and at least least tenants and servers.
func drawCluster(t *rapid.T, least int) *Inventory {
	var tenants []Tenant
	for range rapid.IntRange(least, 8).Draw(t, "tenants") {
		tenants = append(tenants, Tenant{
			Environment: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "environment"),
			Function:    rapid.SampledFrom([]string{"f", "g", "h", "i"}).Draw(t, "function"),
			ReimageRate: rapid.Float64Range(0, 3).Draw(t, "reimages"),
			Peak:        rapid.Float64Range(0, 1).Draw(t, "peak"),
		})
	}
	var servers []stocked
	for range rapid.IntRange(least, 8).Draw(t, "servers") {
		servers = append(servers, stocked{
			Tenant: rapid.IntRange(0, len(tenants)-1).Draw(t, "tenant"),
			Rack:   rapid.SampledFrom([]string{"r", "s", "t", "u"}).Draw(t, "rack"),
			Free:   rapid.IntRange(0, 3).Draw(t, "free"),
			Steady: rapid.IntRange(0, 2).Draw(t, "steady") == 0,
		})
	}
	inv := inventoryOf(tenants, servers)
	for s := range servers {
		if rapid.IntRange(0, 5).Draw(t, "busy") == 0 {
			inv.SetBusy(ServerIndex(s), true)
		}
	}
	return inv
}

// keeps reports whether replicas placed one after another keep the rules as the
// paper states them: rows and columns are forgotten after every third replica.
func keeps(g *Grid, replicas []ServerIndex, rules RuleSet) bool {
	for i, s := range replicas {
		for j, o := range replicas[:i] {
			if s == o ||
				rules&Environments != 0 && g.tenants[g.owner[s]].Environment == g.tenants[g.owner[o]].Environment ||
				rules&Functions != 0 && g.tenants[g.owner[s]].Function == g.tenants[g.owner[o]].Function ||
				rules&Racks != 0 && g.rack[s] == g.rack[o] {
				return false
			}
			row, column := g.Cell(s)
			otherRow, otherColumn := g.Cell(o)
			if rules&Cells != 0 && i/side == j/side && (row == otherRow || column == otherColumn) && !beyond(g, rules) {
				return false
			}
		}
		if rules&Cells != 0 && beyond(g, rules) && crowds(g, replicas[:i], s, rules) {
			return false
		}
	}
	return true
}

// beyond reports whether the paper's rounds do not suffice: there are four columns,
// or a steady server may share a row.
func beyond(g *Grid, rules RuleSet) bool { return g.all != nineCells || rules&Steady != 0 }

// crowds reports whether with s one column holds more than a third of the replicas,
// rounded up, or one row does, unless s is the steady replica that is required.
func crowds(g *Grid, others []ServerIndex, s ServerIndex, rules RuleSet) bool {
	row, column := g.Cell(s)
	inRow, inColumn := 1, 1
	for _, o := range others {
		r, c := g.Cell(o)
		if r == row {
			inRow++
		}
		if c == column {
			inColumn++
		}
	}
	most := len(others)/side + 1
	return inColumn > most || inRow > most && (rules&Steady == 0 || !g.steady[s])
}

// possible is the dumb twin: it tries every sequence of open servers; with Seldom
// only of those that are not in the last column.
func possible(g *Grid, replicas []ServerIndex, n int, rules RuleSet) bool {
	if !keeps(g, replicas, rules) {
		return false
	}
	if len(replicas) == n {
		return true
	}
	for s := range ServerIndex(len(g.owner)) {
		if g.isOpen(s) && (rules&Seldom == 0 || isSeldom(g, s)) && possible(g, append(replicas, s), n, rules) {
			return true
		}
	}
	return false
}

func isSeldom(g *Grid, s ServerIndex) bool {
	_, column := g.Cell(s)
	return column < side
}

// wished reports whether n replicas can keep the rules, given those already placed;
// with Steady, one of these or the next one must be steady. Rows are kept apart.
func wished(g *Grid, replicas []ServerIndex, n int, rules RuleSet) bool {
	apart := rules &^ Steady
	if rules&Steady == 0 || slices.ContainsFunc(replicas, func(s ServerIndex) bool { return g.steady[s] }) {
		return possible(g, replicas, n, apart)
	}
	for s := range ServerIndex(len(g.owner)) {
		if len(replicas) < n && g.steady[s] && g.isOpen(s) && (rules&Seldom == 0 || isSeldom(g, s)) && possible(g, append(replicas, s), n, apart) {
			return true
		}
	}
	return false
}

func TestRulesAreKeptWheneverTheyCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		hard := RuleSet(rapid.IntRange(0, 15).Draw(t, "hard"))
		soft := RuleSet(rapid.IntRange(0, 63).Draw(t, "soft")) &^ hard
		g := NewGrid(drawCluster(t, 1), Rules{Hard: hard, Soft: soft})
		creator := ServerIndex(rapid.IntRange(-1, len(g.owner)-1).Draw(t, "creator"))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

		placed, gaveUp, err := g.PlaceBy(g.Rules, nil, creator, n, r)
		if err != nil {
			var refused *DiversityError
			if !errors.As(err, &refused) {
				t.Fatalf("%v", err)
			}
			if refused.Rules != 0 && possible(g, nil, n, hard) {
				t.Fatalf("%v, but it is possible", err)
			}
			return
		}
		kept := (hard | soft) &^ gaveUp
		if len(placed) != n || !keeps(g, placed, kept) {
			t.Fatalf("placed %v by %s, gave up %s", placed, hard|soft, gaveUp)
		}
		for _, s := range placed {
			if g.free[s] == 0 || g.busy[s] {
				t.Fatalf("placed %v, but %d is full or busy", placed, s)
			}
		}
		const wishes = Steady | Seldom
		if gaveUp&^wishes != 0 && possible(g, nil, n, (hard|soft)&^wishes) {
			t.Fatalf("gave up %s, but all rules can be kept", gaveUp)
		}
		local := g.isOpen(creator) && possible(g, []ServerIndex{creator}, n, kept&^wishes)
		if local && placed[0] != creator {
			t.Fatalf("placed %v, but the creator %d can hold the first", placed, creator)
		}
		var first []ServerIndex
		if placed[0] == creator {
			first = placed[:1:1]
		}
		if kept&Steady != 0 && !slices.ContainsFunc(placed, func(s ServerIndex) bool { return g.steady[s] }) {
			t.Fatalf("placed %v, none of them steady, and did not say so", placed)
		}
		for _, s := range placed[len(first):] {
			if kept&Seldom != 0 && !isSeldom(g, s) {
				t.Fatalf("placed %v, %d among those reimaged most, and did not say so", placed, s)
			}
		}
		// Seldom is given up before Steady: what was given up could not be kept, nor
		// could Seldom have been given up in place of Steady.
		for _, less := range [...]RuleSet{0, Seldom, Steady} {
			tried := gaveUp&Steady != 0 && less == Seldom || less&^gaveUp == 0 && less != gaveUp&wishes
			if tried && less&^soft == 0 && wished(g, first, n, kept&^wishes|soft&wishes&^less) {
				t.Fatalf("placed %v and gave up %s, but %s is enough", placed, gaveUp, less)
			}
		}
	})
}

func TestRepairKeepsRowsAndColumnsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGrid(drawCluster(t, 5), Paper)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.IntRange(2, 4).Draw(t, "n")
		block, err := g.Place(nil, Nowhere, n, r)
		if err != nil {
			t.Skip("no block to lose replicas of")
		}
		survivors := slices.Clone(block[rapid.IntRange(1, n-1).Draw(t, "lost"):])
		repaired, err := g.Place(slices.Clone(survivors), Nowhere, n, r)
		if err != nil {
			t.Fatalf("the place the replica was lost from is free, but %v", err)
		}
		if !slices.Equal(repaired[:len(survivors)], survivors) || len(repaired) != n {
			t.Fatalf("%v became %v", survivors, repaired)
		}
		q := g.Quality(repaired)
		if q.Environments != n || n <= side && (q.Rows != n || q.Columns != n) {
			t.Fatalf("repaired to %+v", q)
		}
	})
}

func TestCellsAreEqualWithinOneTenant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGrid(drawCluster(t, 1), rapid.SampledFrom([]Rules{Paper, History}).Draw(t, "rules"))
		space, steady := g.space()
		total, allSteady, largest := int64(0), int64(0), int64(0)
		for tenant, s := range space {
			total, allSteady, largest = total+s, allSteady+steady[tenant], max(largest, s)
		}
		// The nine cells have all the space or, with Seldom, that of the fewest tenants
		// that have half of it and a third of the steady space: one tenant less is too few.
		sums := [columns * side]int64{}
		nine, nineSteady, seen := int64(0), int64(0), 0
		for c, tenants := range g.cells {
			for _, tenant := range tenants {
				sums[c] += space[tenant]
				seen++
				if c < side*side {
					nine, nineSteady = nine+space[tenant], nineSteady+steady[tenant]
				}
				for _, next := range g.cells {
					for _, other := range next {
						if int(g.cell[other])/side > c/side && g.tenants[other].ReimageRate < g.tenants[tenant].ReimageRate {
							t.Fatalf("tenant %d is reimaged more often than %d, but in column %d", tenant, other, c/side)
						}
					}
				}
			}
		}
		if seen != len(space) {
			t.Fatalf("%d of %d tenants are in a cell", seen, len(space))
		}
		if g.Rules.Soft&Seldom == 0 && nine != total {
			t.Fatalf("nine cells hold %d of %d", nine, total)
		}
		if 2*nine < total || 3*nineSteady < allSteady {
			t.Fatalf("nine cells hold %d of %d, %d of %d steady", nine, total, nineSteady, allSteady)
		}
		for c, sum := range sums {
			share := float64(nine) / 9
			if c >= side*side {
				share = float64(total-nine) / 3
			}
			if off := math.Abs(float64(sum) - share); off > float64(largest)+1 {
				t.Fatalf("cell %d holds %d, not about %.1f: off by more than the largest tenant's %d", c, sum, share, largest)
			}
		}
	})
}

func TestOpenListsFollowEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv := drawCluster(t, 1)
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			s := ServerIndex(rapid.IntRange(0, len(inv.owner)-1).Draw(t, "server"))
			change(t, inv, s)
			room := map[TenantIndex]int{}
			for s := range inv.owner {
				if inv.free[s] > 0 && !inv.busy[s] {
					room[inv.owner[s]]++
				}
				if open := slices.Contains(inv.open[inv.owner[s]], ServerIndex(s)); open != (inv.free[s] > 0 && !inv.busy[s]) {
					t.Fatalf("server %d: free %d, busy %v, open %v", s, inv.free[s], inv.busy[s], open)
				}
			}
			want := inv.counted()
			if inv.room != want || sum(inv.free) != want.all {
				t.Fatalf("there is room for %+v, not for %+v", want, inv.room)
			}
			if inv.Room() != len(room) {
				t.Fatalf("%d tenants have room, not %d", len(room), inv.Room())
			}
			for tenant, open := range inv.open {
				if len(open) != room[TenantIndex(tenant)] {
					t.Fatalf("tenant %d: %d open servers, not %d", tenant, len(open), room[TenantIndex(tenant)])
				}
			}
		}
	})
}

// change does one of all the things that can happen to an inventory.
func change(t *rapid.T, inv *Inventory, s ServerIndex) {
	disk := DiskIndex(rapid.IntRange(0, len(inv.diskOn)-1).Draw(t, "disk"))
	bytes := cluster.Bytes(rapid.IntRange(0, 3*blockBytes).Draw(t, "bytes"))
	switch rapid.IntRange(0, 7).Draw(t, "change") {
	case 0:
		if inv.Free(s) > 0 {
			if d := inv.Take(s); inv.diskOn[d] != s || inv.diskFree[d] < 0 {
				t.Fatalf("a block for server %d is to stand on disk %d of %d, %d bytes short", s, d, inv.diskOn[d], -inv.diskFree[d])
			}
		}
	case 1:
		inv.Release(disk, rapid.IntRange(0, 2).Draw(t, "n"))
	case 2:
		inv.SetFree(disk, bytes)
	case 3:
		inv.AddDisk(s, bytes)
	case 4:
		inv.RemoveDisk(disk)
	case 5:
		inv.AddServer(Server{Tenant: inv.owner[s], Rack: "new", Steady: rapid.Bool().Draw(t, "steady")}, bytes, bytes/2)
	case 6:
		inv.AddServer(Server{Tenant: inv.AddTenant(Tenant{Environment: fmt.Sprint("new ", len(inv.tenants))})})
	default:
		inv.SetBusy(s, rapid.Bool().Draw(t, "busy"))
	}
}

func sum(values []int32) (total int64) {
	for _, v := range values {
		total += int64(v)
	}
	return total
}

// counted counts the room disk by disk.
func (inv *Inventory) counted() (r room) {
	free := make([]int32, len(inv.owner))
	for d, s := range inv.diskOn {
		if s != Nowhere {
			free[s] += int32(max(inv.diskFree[d], 0) / blockBytes)
		}
	}
	for s, free := range free {
		r.all += int64(free)
		if inv.steady[s] {
			r.steady += int64(free)
		}
	}
	return r
}

// rankedCluster has 36 tenants of three servers, each reimaged more often than the
// one before it.
func rankedCluster() (tenants []Tenant, servers []stocked) {
	for i := range 36 {
		tenants = append(tenants, Tenant{Environment: fmt.Sprint(i), ReimageRate: float64(i), Peak: float64(i * 7 % 36)})
		for j := range 3 {
			servers = append(servers, stocked{Tenant: i, Rack: fmt.Sprint(j), Free: 100, Steady: i%5 == 0})
		}
	}
	return tenants, servers
}

// A repair finds the only cell it may use full, and the one beside it in the last
// column busy, long before an eighth of the space is taken.
func TestCellsAreRebuiltBeforeARepairIsRefused(t *testing.T) {
	tenants, servers := rankedCluster()
	g := NewGrid(inventoryOf(tenants, servers), History)
	var survivors []ServerIndex
	for s := range ServerIndex(len(servers)) {
		switch row, column := g.Cell(s); {
		case len(survivors) == row && row == column && row < 2:
			survivors = append(survivors, s)
		case row == 2 && column == 3:
			g.SetBusy(s, true)
		case row == 2 && column == 2:
			for g.Free(s) > 0 {
				g.Take(s)
			}
		}
	}
	of := g.of
	placed, err := g.Place(slices.Clone(survivors), Nowhere, 3, rand.New(rand.NewPCG(1, 1)))
	if len(survivors) != 2 || err != nil || len(placed) != 3 {
		t.Fatalf("%v became %v: %v", survivors, placed, err)
	}
	if g.of == of || g.shifted(of.all, g.room.all) || g.shifted(of.steady, g.room.steady) {
		t.Fatalf("cells of %+v after those of %+v", g.of, of)
	}
}

func TestSeldomReachesFurtherAsSpaceRunsOut(t *testing.T) {
	tenants, servers := rankedCluster()
	const fit = 36 * 3 * 100 / 3
	fill := func(rules Rules) (rates []float64) {
		g := NewGrid(inventoryOf(tenants, servers), rules)
		r := rand.New(rand.NewPCG(1, 1))
		for range fit {
			placed, err := g.Place(nil, ServerIndex(r.IntN(len(servers))), 3, r)
			if err != nil {
				return rates
			}
			if rules.Soft&Seldom != 0 && g.shifted(g.of.all, g.room.all) {
				t.Fatalf("cells of %+v while there is room for %+v", g.of, g.room)
			}
			rate := 0.0
			for i, s := range placed {
				g.Take(s)
				if i > 0 { // the creator's replica is fixed
					rate += tenants[g.owner[s]].ReimageRate / 2
				}
			}
			rates = append(rates, rate)
		}
		return rates
	}
	mean := func(values []float64) (m float64) {
		for _, v := range values {
			m += v / float64(len(values))
		}
		return m
	}
	seldom, paper := fill(History), fill(Paper)
	if len(seldom) < fit*95/100 {
		t.Errorf("%d blocks fit by history, %d by Algorithm 2, of %d", len(seldom), len(paper), fit)
	}
	// First the least reimaged half, then gradually all; Algorithm 2 takes all from the start.
	tenth := fit / 10
	first, fifth, last := mean(seldom[:tenth]), mean(seldom[4*tenth:5*tenth]), mean(seldom[len(seldom)-tenth:])
	if first > 9.5 || first > fifth || fifth > last || mean(paper[:tenth]) < 16 {
		t.Errorf("mean reimages of the first, fifth and last tenth: %.1f, %.1f, %.1f; by Algorithm 2 %.1f", first, fifth, last, mean(paper[:tenth]))
	}
	t.Logf("history fits %d of %d, reimages %.1f, %.1f, %.1f; Algorithm 2 fits %d, reimages %.1f", len(seldom), fit, first, fifth, last, len(paper), mean(paper[:tenth]))
}

// evenCluster has three tenants in each cell, each in an environment of its own,
// each with three servers.
func evenCluster() *Inventory {
	var tenants []Tenant
	var servers []stocked
	for i := range 27 {
		name := fmt.Sprint(i)
		tenants = append(tenants, Tenant{Environment: name, Function: name, ReimageRate: float64(i / 9), Peak: float64(i % 9)})
		for j := range 3 {
			servers = append(servers, stocked{Tenant: i, Rack: fmt.Sprint(j), Free: 100})
		}
	}
	return inventoryOf(tenants, servers)
}

// The cells of a grid made of nothing fill as tenants, servers and disks come, and
// empty as they go.
func TestAGridFollowsServersThatComeAndGo(t *testing.T) {
	for _, rules := range []Rules{Paper, History} {
		inv := NewInventory(blockBytes)
		g := NewGrid(inv, rules)
		r := rand.New(rand.NewPCG(1, 1))
		place := func() ([]ServerIndex, error) { return g.Place(nil, Nowhere, 3, r) }
		for _, p := range []interface {
			Place([]ServerIndex, ServerIndex, int, *rand.Rand) ([]ServerIndex, error)
		}{g, Stock{inv}, Random{inv}} {
			if placed, err := p.Place(nil, Nowhere, 3, r); err == nil {
				t.Fatalf("%T placed %v where there is nothing", p, placed)
			}
		}
		var disks []DiskIndex
		for i := range 27 {
			tenant := inv.AddTenant(Tenant{Environment: fmt.Sprint(i), ReimageRate: float64(i / 9), Peak: float64(i % 9)})
			server := inv.AddServer(Server{Tenant: tenant, Rack: fmt.Sprint(i), Steady: i%3 == 0})
			disks = append(disks, inv.AddDisk(server, 100*blockBytes))
		}
		fresh := NewGrid(inv, rules)
		for range 200 {
			if placed, err := place(); err != nil || !keeps(fresh, placed, Paper.Hard) {
				t.Fatalf("placed %v: %v", placed, err)
			}
		}
		if !slices.Equal(g.cell, fresh.cell) {
			t.Errorf("tenants are in cells %d, a new grid has them in %d", g.cell, fresh.cell)
		}
		for _, d := range disks[:18] {
			inv.RemoveDisk(d)
		}
		fresh = NewGrid(inv, rules)
		for range 200 {
			placed, err := place()
			if err != nil || !keeps(fresh, placed, Paper.Hard) || slices.Min(placed) < 18 {
				t.Fatalf("placed %v: %v", placed, err)
			}
		}
	}
}

func TestChanceIsAsStated(t *testing.T) {
	inv := evenCluster()
	g := NewGrid(inv, Paper)
	inv.SetBusy(80, true)                 // a server of the last tenant
	for _, s := range []int{51, 52, 53} { // a whole tenant of cell 5: row 2, column 1
		inv.SetBusy(ServerIndex(s), true)
	}
	r := rand.New(rand.NewPCG(3, 3))
	const rounds = 200_000
	counts := make([]float64, len(inv.owner))
	cells := [9]float64{}
	for range rounds {
		placed, err := g.Place(make([]ServerIndex, 0, 3), 0, 3, r)
		if err != nil || placed[0] != 0 {
			t.Fatal(placed, err)
		}
		counts[placed[1]]++
		row, column := g.Cell(placed[1])
		cells[column*side+row]++
	}
	// The creator is in cell 0 (row 0, column 0): the second replica comes from one
	// of the four cells that share neither.
	near := func(what string, got, want float64) {
		p := want / rounds
		if sigma := math.Sqrt(rounds * p * (1 - p)); math.Abs(got-want) > 4.5*sigma {
			t.Errorf("%s: %v times, not about %v", what, got, want)
		}
	}
	for c, got := range cells {
		if c%side == 0 || c/side == 0 {
			if got != 0 {
				t.Errorf("cell %d shares a row or column with the creator's and was drawn %v times", c, got)
			}
			continue
		}
		near(fmt.Sprintf("cell %d", c), got, rounds/4)
	}
	for s, got := range counts {
		tenant := inv.owner[s]
		cell := g.cell[tenant]
		if cell%side == 0 || cell/side == 0 {
			continue
		}
		tenants, servers := 3.0, 3.0
		if cell == g.cell[17] {
			tenants = 2
		}
		if tenant == inv.owner[80] {
			servers = 2
		}
		want := rounds / 4 / tenants / servers
		if inv.busy[s] {
			want = 0
		}
		near(fmt.Sprintf("server %d of tenant %d", s, tenant), got, want)
	}
}

func TestBaselines(t *testing.T) {
	inv := evenCluster() // three racks of 27
	r := rand.New(rand.NewPCG(1, 2))
	inv.SetBusy(4, true)
	seen := map[ServerIndex]bool{}
	for range 3000 {
		placed, err := Stock{inv}.Place(nil, 4, 4, r)
		if err != nil || len(placed) != 4 || placed[0] != 4 {
			t.Fatal(placed, err)
		}
		if inv.rack[placed[1]] != inv.rack[4] || inv.rack[placed[2]] == inv.rack[4] || placed[1] == 4 {
			t.Fatalf("stock placed %v in racks %d %d %d", placed, inv.rack[placed[0]], inv.rack[placed[1]], inv.rack[placed[2]])
		}
		placed, err = Stock{inv}.Place([]ServerIndex{0, 1}, Nowhere, 3, r) // two racks already
		if err != nil || inv.rack[placed[2]] > 1 {
			t.Fatalf("stock repaired to %v (%v)", placed, err)
		}
		placed, err = Random{inv}.Place(nil, 4, 3, r)
		if err != nil || placed[0] == placed[1] || placed[1] == placed[2] || placed[0] == placed[2] {
			t.Fatalf("random placed %v (%v)", placed, err)
		}
		seen[placed[0]] = true
	}
	if len(seen) != len(inv.owner) {
		t.Errorf("random's first replica was on %d of %d servers", len(seen), len(inv.owner))
	}
	for s := range inv.owner {
		for inv.Free(ServerIndex(s)) > 0 && s > 1 {
			inv.Take(ServerIndex(s))
		}
	}
	if placed, err := (Random{inv}).Place(nil, 5, 2, r); err != nil || max(placed[0], placed[1]) > 1 {
		t.Errorf("random placed %v on full servers (%v)", placed, err)
	}
	for _, p := range []interface {
		Place([]ServerIndex, ServerIndex, int, *rand.Rand) ([]ServerIndex, error)
	}{Random{inv}, Stock{inv}} {
		if placed, err := p.Place(nil, 0, 3, r); err == nil || len(placed) != 0 {
			t.Errorf("%T placed three replicas on two servers: %v", p, placed)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var tenants []Tenant
	var servers []stocked
	for i := range 350 {
		tenants = append(tenants, Tenant{Environment: fmt.Sprint(i / 4), Function: fmt.Sprint(i % 30), ReimageRate: r.ExpFloat64(), Peak: r.Float64()})
	}
	for i := range 5000 {
		servers = append(servers, stocked{Tenant: i % 350, Rack: fmt.Sprint(i / 40), Free: 8192, Steady: i%350 < 120})
	}
	inv := inventoryOf(tenants, servers)
	for _, tc := range []struct {
		name  string
		rules Rules
	}{{"", Paper}, {"_history", History}, {"_all_rules", Rules{Hard: Cells | Environments | Racks | Functions, Soft: Steady}}} {
		g := NewGrid(inv, tc.rules)
		b.Run("5000servers_R3"+tc.name, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]ServerIndex, 0, 3)
			for b.Loop() {
				if _, err := g.Place(dst, ServerIndex(r.IntN(5000)), 3, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("NewGrid/5000servers", func(b *testing.B) {
		for b.Loop() {
			NewGrid(inv, Paper)
		}
	})
}
