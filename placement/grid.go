package placement

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// side is how many rows the grid has, and how many columns replicas are spread
// over. With the rule Seldom there is one more column.
const (
	side    = 3
	columns = side + 1
)

// nineCells are those of the first three columns, a bit each.
const nineCells = 1<<(side*side) - 1

// A Grid places replicas by Algorithm 2. Its cells divide the space that is free
// when it is made, and are rebuilt when a tenant has come, or an eighth of the space
// has come or gone with disks. To follow the space that blocks take, make a NewGrid
// of the same Inventory; with the rule Seldom the grid rebuilds its cells itself,
// because that rule is about the space that is left.
type Grid struct {
	*Inventory
	Rules Rules // of Place; PlaceBy may be given others

	cell  []uint8 // of each tenant: column*side + row
	cells [columns * side][]TenantIndex
	all   uint16 // the cells of three columns or of four, a bit each
	of    room   // when the cells were made
	at    int64  // Inventory.taken then
	since int64  // Inventory.shift then
}

// NewGrid makes nine cells whose space is equal to within one tenant: of all space
// or, with the rule Seldom, of the space of the tenants that are reimaged least, and
// three more of the rest.
func NewGrid(inv *Inventory, rules Rules) *Grid {
	g := &Grid{Inventory: inv, Rules: rules}
	g.divide()
	return g
}

func (g *Grid) divide() {
	g.of, g.at, g.since = g.room, g.taken, g.shift
	g.cell = make([]uint8, len(g.tenants))
	space, steady := g.space()
	order := make([]TenantIndex, len(g.tenants))
	total := int64(0)
	for i := range order {
		order[i] = TenantIndex(i)
		total += space[i]
	}
	by := func(of func(Tenant) float64) func(a, b TenantIndex) int {
		return func(a, b TenantIndex) int {
			return cmp.Or(cmp.Compare(of(g.tenants[a]), of(g.tenants[b])), cmp.Compare(a, b))
		}
	}
	slices.SortFunc(order, by(func(t Tenant) float64 { return t.ReimageRate }))
	nine := total
	g.all = nineCells
	if g.Rules.Soft&Seldom != 0 {
		nine = seldom(order, space, steady)
		g.all = 1<<(columns*side) - 1
	}
	// border is the space before a cell.
	border := func(cell int) int64 {
		if cell <= side*side {
			return nine * int64(cell) / (side * side)
		}
		return nine + (total-nine)*int64(cell-side*side)/side
	}
	// Cut between the tenants nearest to the cell's border in all the space, not
	// in the column's, so that errors do not add up.
	used := int64(0)
	for column := range columns {
		n := cut(order, space, used, border((column+1)*side), column == columns-1)
		in := order[:n]
		order = order[n:]
		slices.SortFunc(in, by(func(t Tenant) float64 { return t.Peak }))
		for row := range side {
			cell := column*side + row
			n := cut(in, space, used, border(cell+1), row == side-1)
			for _, t := range in[:n] {
				g.cell[t] = uint8(cell)
				used += space[t]
			}
			g.cells[cell] = slices.Clone(in[:n])
			in = in[n:]
		}
	}
}

// stale reports whether the cells must be rebuilt.
func (g *Grid) stale() bool {
	return len(g.cell) < len(g.tenants) || g.much(g.shift-g.since, g.of.all) ||
		g.Rules.Soft&Seldom != 0 && (g.shifted(g.of.all, g.room.all) || g.shifted(g.of.steady, g.room.steady))
}

// shifted reports whether space has changed much.
func (g *Grid) shifted(from, to int64) bool { return g.much(max(from-to, to-from), from) }

// much is more than an eighth of the space, and more than a block a server, because
// rebuilding the cells visits every server.
func (g *Grid) much(change, of int64) bool { return change > max(of/8, int64(len(g.owner))) }

// seldom returns the space of the tenants in the nine cells of the rule Seldom: in
// order of their reimages, the first that have half of the space and a third of the
// steady space, because one replica of three goes there.
func seldom(order []TenantIndex, space, steady []int64) (nine int64) {
	var all, allSteady, nineSteady int64
	for _, t := range order {
		all, allSteady = all+space[t], allSteady+steady[t]
	}
	for _, t := range order {
		if 2*nine >= all && side*nineSteady >= allSteady {
			break
		}
		nine, nineSteady = nine+space[t], nineSteady+steady[t]
	}
	return nine
}

// cut returns how many of the tenants to take so that used and their space come
// nearest to target; the last cell takes all.
func cut(tenants []TenantIndex, space []int64, used, target int64, last bool) int {
	if last {
		return len(tenants)
	}
	for n, t := range tenants {
		if after := used + space[t]; after-target > target-used {
			return n
		}
		used += space[t]
	}
	return len(tenants)
}

// Cell returns the row (peak, 0 the lowest) and the column (reimages, 0 the fewest,
// 3 what the rule Seldom leaves out) of the cell of a server's tenant.
func (g *Grid) Cell(s ServerIndex) (row, column int) {
	if len(g.cell) < len(g.tenants) {
		g.divide()
	}
	return g.cellOf(s)
}

func (g *Grid) cellOf(s ServerIndex) (row, column int) {
	c := int(g.cell[g.owner[s]])
	return c % side, c / side
}

// Place appends servers to those that hold a block's replicas already, none for
// a new block, until there are n, by the grid's own rules. A new block's first
// replica goes to the server that creates it, unless that server cannot take one or
// the rules could not be kept then. Place books no space: the caller calls Take.
func (g *Grid) Place(have []ServerIndex, creator ServerIndex, n int, r *rand.Rand) ([]ServerIndex, error) {
	placed, _, err := g.PlaceBy(g.Rules, have, creator, n, r)
	return placed, err
}

// fewest is how many tenants must have room for new blocks to be accepted (OSDI'16
// §4.2: never fill up until less than three remain as targets).
const fewest = 3

// PlaceBy is Place by other rules. It returns the soft rules that it gave up. If
// the hard ones cannot be met, it returns have unchanged and a *DiversityError.
func (g *Grid) PlaceBy(rules Rules, have []ServerIndex, creator ServerIndex, n int, r *rand.Rand) (placed []ServerIndex, gaveUp RuleSet, err error) {
	if len(have) == 0 && rules.Hard != 0 && g.openTenants < min(fewest, n) {
		return have, 0, &DiversityError{Replicas: n, Room: g.openTenants}
	}
	if g.stale() {
		g.divide()
	}
	wish := rules.Soft & (Steady | Seldom)
	for _, gaveUp := range givingUp {
		if gaveUp&^rules.Soft != 0 || gaveUp&rules.Hard != 0 {
			continue
		}
		s := search{g: g, rules: (rules.Hard | rules.Soft) &^ (gaveUp | Steady | Seldom), n: n, r: r}
		if len(have) == 0 && n > 0 && g.isOpen(creator) {
			if placed, more, ok := s.find(append(have, creator), wish); ok {
				return placed, gaveUp | more, nil
			}
		}
		if placed, more, ok := s.find(have, wish); ok {
			return placed, gaveUp | more, nil
		}
		// The survivors of four or more may share a row among them already.
		if s.loose = len(have) > 0 && n > side; s.loose {
			if placed, more, ok := s.find(have, wish); ok {
				return placed, gaveUp | more, nil
			}
		}
	}
	// Some cells may have filled up before others.
	if g.Rules.Soft&Seldom != 0 && g.taken-g.at > int64(len(g.owner)) {
		g.divide()
		return g.PlaceBy(rules, have, creator, n, r)
	}
	return have, 0, &DiversityError{Replicas: n, Room: g.openTenants, Rules: rules.Hard}
}

// A search looks for n servers that keep the rules.
type search struct {
	g     *Grid
	rules RuleSet
	n     int
	r     *rand.Rand
	cells uint16 // that may be drawn from
	loose bool   // count rows and columns over all n replicas, not after each
	only  bool   // steady servers, for the next replica
	steps int    // so far
}

// patience bounds a search: after so many steps a block is refused, though an
// arrangement may exist. Only a nearly full cluster comes near it.
const patience = 20_000

// find looks for the rest of the replicas. Of the wished rules it gives up as few as
// it can: Seldom before Steady, because a replica that is rebuilt more often can
// still be read.
func (s *search) find(have []ServerIndex, wish RuleSet) (placed []ServerIndex, gaveUp RuleSet, ok bool) {
	for _, gaveUp := range [...]RuleSet{0, Seldom, Steady, Seldom | Steady} {
		if gaveUp&^wish != 0 {
			continue
		}
		if placed, ok := s.findBy(have, wish&^gaveUp); ok {
			return placed, gaveUp, true
		}
	}
	return have, 0, false
}

// findBy looks for the rest of the replicas. If one of them must be steady and none
// is yet, the next one is: from a row of its own or, if there is none, from any.
// Rows prevent that all replicas are busy at once, and a steady one never is.
func (s *search) findBy(have []ServerIndex, wish RuleSet) ([]ServerIndex, bool) {
	s.cells = s.g.all
	if wish&Seldom != 0 {
		s.cells = nineCells
	}
	s.steps = 0
	if wish&Steady == 0 || slices.ContainsFunc(have, func(server ServerIndex) bool { return s.g.steady[server] }) {
		return s.extend(have)
	}
	if len(have) >= s.n {
		return have, false
	}
	apart := s.allowed(have, true)
	for _, cells := range [...]uint16{apart, s.allowed(have, false) &^ apart} {
		s.steps = 0
		if placed, ok := s.extendFrom(cells, have, true); ok {
			return placed, true
		}
	}
	return have, false
}

func (s *search) extend(have []ServerIndex) ([]ServerIndex, bool) {
	if len(have) >= s.n {
		return have, true
	}
	if s.steps++; s.steps > patience {
		return have, false
	}
	return s.extendFrom(s.allowed(have, true), have, false)
}

// extendFrom takes the next replica from one of the cells, from steady servers
// only or from all, and the rest after it.
func (s *search) extendFrom(cells uint16, have []ServerIndex, only bool) ([]ServerIndex, bool) {
	for cells != 0 {
		c := s.drawBit(cells)
		cells &^= 1 << c
		s.only = only
		if placed, ok := s.extendIn(c, have, only); ok {
			return placed, true
		}
	}
	return have, false
}

// allowed are the cells that the next replica may come from: those of columns,
// and of rows if they count, that hold fewer than a third, rounded up, of the
// replicas then.
func (s *search) allowed(have []ServerIndex, rowsCount bool) uint16 {
	if s.rules&Cells == 0 {
		return s.cells
	}
	most := (len(have) + side) / side // a third of one more than there are, rounded up
	if s.loose {
		most = (s.n + side - 1) / side
	}
	cells := s.cells
	var inRow [side]int
	var inColumn [columns]int
	for _, server := range have {
		row, column := s.g.cellOf(server)
		if inRow[row]++; rowsCount && inRow[row] == most {
			cells &^= 0b001_001_001_001 << row
		}
		if inColumn[column]++; inColumn[column] == most {
			cells &^= 0b111 << (side * column)
		}
	}
	return cells
}

// drawBit draws one of the set bits.
func (s *search) drawBit(set uint16) int {
	for skip := s.r.IntN(bits.OnesCount16(set)); skip > 0; skip-- {
		set &= set - 1
	}
	return bits.TrailingZeros16(set)
}

// extendIn takes the next replica from cell c: from a random tenant and, if that is
// a dead end, from each of the others.
func (s *search) extendIn(c int, have []ServerIndex, only bool) ([]ServerIndex, bool) {
	server, ok := s.draw(s.g.cells[c], have)
	if !ok {
		return have, false
	}
	if placed, ok := s.extend(append(have, server)); ok {
		return placed, true
	}
	for _, t := range s.g.cells[c] {
		if s.only = only; !s.tenantFits(t, have) {
			continue
		}
		for _, other := range s.g.open[t] {
			if s.only = only; !s.serverFits(other, have) {
				continue
			}
			if placed, ok := s.extend(append(have, other)); ok {
				return placed, true
			}
			if s.rules&Racks == 0 {
				break // the tenant's other servers lead to the same dead end
			}
		}
	}
	return have, false
}

// tries is how often a draw is repeated before the candidates are counted.
const tries = 6

// draw takes a tenant uniformly from those that can hold the next replica, and
// one of its servers: it draws from all and, after a few tries, counts those that
// can, so that each of these is equally likely.
func (s *search) draw(tenants []TenantIndex, have []ServerIndex) (ServerIndex, bool) {
	if len(tenants) == 0 {
		return 0, false
	}
	for range tries {
		if server, ok := s.drawServer(tenants[s.r.IntN(len(tenants))], have); ok {
			return server, true
		}
	}
	count := 0
	for _, t := range tenants {
		if s.canHold(t, have) {
			count++
		}
	}
	if count == 0 {
		return 0, false
	}
	skip := s.r.IntN(count)
	for _, t := range tenants {
		if !s.canHold(t, have) {
			continue
		}
		if skip == 0 {
			return s.drawServer(t, have)
		}
		skip--
	}
	panic("placement: candidates vanished while they were counted")
}

func (s *search) drawServer(t TenantIndex, have []ServerIndex) (ServerIndex, bool) {
	if !s.tenantFits(t, have) {
		return 0, false
	}
	open := s.g.open[t]
	for range tries {
		if server := open[s.r.IntN(len(open))]; s.serverFits(server, have) {
			return server, true
		}
	}
	count := 0
	for _, server := range open {
		if s.serverFits(server, have) {
			count++
		}
	}
	if count == 0 {
		return 0, false
	}
	skip := s.r.IntN(count)
	for _, server := range open {
		if !s.serverFits(server, have) {
			continue
		}
		if skip == 0 {
			return server, true
		}
		skip--
	}
	panic("placement: candidates vanished while they were counted")
}

func (s *search) canHold(t TenantIndex, have []ServerIndex) bool {
	return s.tenantFits(t, have) && slices.ContainsFunc(s.g.open[t], func(server ServerIndex) bool { return s.serverFits(server, have) })
}

// tenantFits reports whether t has room and is apart from the tenants in have.
func (s *search) tenantFits(t TenantIndex, have []ServerIndex) bool {
	if len(s.g.open[t]) == 0 || s.only && s.g.openSteady[t] == 0 {
		return false
	}
	if s.rules&(Environments|Functions) == 0 {
		return true
	}
	for _, server := range have {
		other := s.g.owner[server]
		if s.rules&Environments != 0 && s.g.environment[t] == s.g.environment[other] ||
			s.rules&Functions != 0 && s.g.function[t] == s.g.function[other] {
			return false
		}
	}
	return true
}

// serverFits reports whether a server is none of those in have, nor in one of their
// racks, and steady if it must be.
func (s *search) serverFits(server ServerIndex, have []ServerIndex) bool {
	if s.only && !s.g.steady[server] {
		return false
	}
	for _, other := range have {
		if server == other || s.rules&Racks != 0 && s.g.rack[server] == s.g.rack[other] {
			return false
		}
	}
	return true
}
