package placement

// A Quality is how far apart the replicas of one block are (OSDI'16 §7, lesson
// 1): in how many different rows, columns and so on they are.
type Quality struct {
	Replicas, Rows, Columns, Environments, Functions, Racks int
}

// Quality measures the replicas of one block.
func (g *Grid) Quality(replicas []ServerIndex) Quality {
	q := Quality{Replicas: len(replicas)}
	for i, s := range replicas {
		rest := replicas[:i]
		row, column := g.Cell(s)
		q.Rows += fresh(rest, func(o ServerIndex) bool { r, _ := g.Cell(o); return r == row })
		q.Columns += fresh(rest, func(o ServerIndex) bool { _, c := g.Cell(o); return c == column })
		t := g.owner[s]
		q.Environments += fresh(rest, func(o ServerIndex) bool { return g.environment[g.owner[o]] == g.environment[t] })
		q.Functions += fresh(rest, func(o ServerIndex) bool { return g.function[g.owner[o]] == g.function[t] })
		q.Racks += fresh(rest, func(o ServerIndex) bool { return g.rack[o] == g.rack[s] })
	}
	return q
}

// Choice is the quality of a replica on each server that has disks, busy or full as
// it may be: what there is to choose from.
func (g *Grid) Choice() Quality {
	rows, columns := map[int]bool{}, map[int]bool{}
	environments, functions, racks := map[int32]bool{}, map[int32]bool{}, map[int32]bool{}
	replicas := 0
	for s, t := range g.owner {
		if len(g.disks[s]) == 0 {
			continue
		}
		row, column := g.Cell(ServerIndex(s))
		rows[row], columns[column], racks[g.rack[s]] = true, true, true
		environments[g.environment[t]], functions[g.function[t]] = true, true
		replicas++
	}
	return Quality{replicas, len(rows), len(columns), len(environments), len(functions), len(racks)}
}

func fresh(others []ServerIndex, same func(ServerIndex) bool) int {
	for _, o := range others {
		if same(o) {
			return 0
		}
	}
	return 1
}

// Share is the quality relative to the best that as many replicas can have by these
// rules, 0 to 1: 1 if every rule is met.
func (q Quality) Share(rules RuleSet) float64 {
	if q.Replicas == 0 {
		return 1
	}
	got, best := 0, 0
	add := func(rule RuleSet, n, most int) {
		if rules&rule != 0 {
			got, best = got+min(n, most), best+min(q.Replicas, most)
		}
	}
	add(Cells, q.Rows, side)
	add(Cells, q.Columns, side)
	add(Environments, q.Environments, q.Replicas)
	add(Functions, q.Functions, q.Replicas)
	add(Racks, q.Racks, q.Replicas)
	if best == 0 {
		return 1
	}
	return float64(got) / float64(best)
}
