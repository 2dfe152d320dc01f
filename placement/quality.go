package placement

import "slices"

// A Quality is how far apart the replicas of one block are (OSDI'16 §7, lesson
// 1): in how many different rows, columns and so on they are.
type Quality struct {
	Replicas, Rows, Columns, Environments, Functions, Racks int
}

// Quality measures the replicas of one block.
func (g *Grid) Quality(replicas []ServerIndex) Quality {
	different := func(of func(ServerIndex) int32) int {
		seen := map[int32]bool{}
		for _, s := range replicas {
			seen[of(s)] = true
		}
		return len(seen)
	}
	return Quality{
		Replicas:     len(replicas),
		Rows:         different(func(s ServerIndex) int32 { row, _ := g.Cell(s); return int32(row) }),
		Columns:      different(func(s ServerIndex) int32 { _, column := g.Cell(s); return int32(column) }),
		Environments: different(func(s ServerIndex) int32 { return g.environment[g.owner[s]] }),
		Functions:    different(func(s ServerIndex) int32 { return g.function[g.owner[s]] }),
		Racks:        different(func(s ServerIndex) int32 { return g.rack[s] }),
	}
}

// Choice is in how many rows, columns and so on, beside those of the replicas in have,
// there are servers with disks, busy or full as they may be. Replicas counts those servers.
func (g *Grid) Choice(have []ServerIndex) Quality {
	all := slices.Clone(have)
	for s, disks := range g.disks {
		if len(disks) > 0 {
			all = append(all, ServerIndex(s))
		}
	}
	q, was := g.Quality(all), g.Quality(have)
	return Quality{q.Replicas - was.Replicas, q.Rows - was.Rows, q.Columns - was.Columns, q.Environments - was.Environments, q.Functions - was.Functions, q.Racks - was.Racks}
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
