package scc

import (
	"fmt"
	"math"

	"gleaner/plan"
	"gleaner/plan/pack"
)

// photoshare is Section 5.2: the published cluster, and what sharing servers
// between tasks and data would save.
func (b *bench) photoshare() error {
	in, p, err := b.solve("photoshare", "server1", 1, plan.Options{})
	if err != nil {
		return err
	}
	same := p.Needs.Architecture.Describe(in) == "photos on 15KDisk, thumbnails on SSD, tags on 7.2KDisk + DRAM" &&
		p.Packing.Servers() == 3 && units(in, p, "15KDisk") == 4 && units(in, p, "DRAM") == 5 && cpus(in, p) == 8
	b.note("T4", "PhotoShare at 100/300/100", "3 servers, 4 x 15K, SSD, 7.2K, 5 GB, 8 cores: $7324",
		fmt.Sprintf("%d servers: %s", p.Packing.Servers(), dollars(p.Cost)), same && p.Cost == 7324)
	_, shared, err := b.solve("photoshare", "server1", 1, plan.Options{Colocate: true})
	if err != nil {
		return err
	}
	b.note("T4", "the same, tasks and data sharing servers", "-", fmt.Sprintf("%s (%.0f%% less)", dollars(shared.Cost), 100*(1-shared.Cost/p.Cost)), shared.Cost < p.Cost)
	twice, err := plan.Solve(in.Energy(2), b.opt)
	if err != nil {
		return err
	}
	b.note("T12", "the same at twice the energy cost", "unchanged", twice.Needs.Architecture.Describe(in), twice.Needs.Architecture.Equal(p.Needs.Architecture))
	return nil
}

func units(in plan.Input, p plan.Plan, kind string) int {
	n := 0
	for _, s := range p.Servers(in) {
		n += s.Count * s.Units[kind]
	}
	return n
}

func cpus(in plan.Input, p plan.Plan) int {
	n := 0
	for _, s := range p.Servers(in) {
		n += s.Count * s.CPUs
	}
	return n
}

// productsearch is Section 5.3: 12 and 13 queries a minute (Figure 7), and the
// variant with hot and cold products.
func (b *bench) productsearch() error {
	in, p, err := b.solve("productsearch", "server1", 1, plan.Options{})
	if err != nil {
		return err
	}
	same := p.Needs.Tasks[0].Instances == 12 && p.Packing.Servers() == 5 && units(in, p, "7.2KDisk") == 4 && units(in, p, "SSD") == 12
	b.note("T13", "ProductSearch at 12 queries/min", "2 servers x 2 7.2K; 12 workers on 3 servers x 4 SSD", fmt.Sprintf("%d workers, %d servers, %d 7.2K, %d SSD: %s",
		p.Needs.Tasks[0].Instances, p.Packing.Servers(), units(in, p, "7.2KDisk"), units(in, p, "SSD"), dollars(p.Cost)), same && p.Cost == 14114)
	_, more, err := b.solve("productsearch", "server1", 13./12, plan.Options{})
	if err != nil {
		return err
	}
	changes := plan.Changes(in, p, more)
	b.note("T14", "the same at 13 queries/min (Figure 7)", "configuration changes", fmt.Sprintf("%s: %v", dollars(more.Cost), changes), len(changes) > 0 && more.Cost == 16142)
	hot, split, err := b.solve("productsearch-hotcold", "server1", 1, plan.Options{})
	if err != nil {
		return err
	}
	saves := 1 - split.Cost/p.Cost
	same = split.Needs.Architecture.Describe(hot) == "tables_repository on 7.2KDisk, hot_ratingsdata on DRAM, cold_ratingsdata on 15KDisk" &&
		split.Needs.Tasks[0].Instances == 12 && split.Packing.Servers() == 5
	b.note("T15", "80% of queries to 20% of products", "12 workers, 3 x (4 x 15K + 10 GB), 7% cheaper", fmt.Sprintf("hot on DRAM, cold on 15K, %d workers, %d GB: %.1f%% cheaper",
		split.Needs.Tasks[0].Instances, units(hot, split, "DRAM"), 100*saves), same && saves > 0.06 && saves < 0.09)
	return nil
}

// terasort is Section 5.4.
func (b *bench) terasort() error {
	in, p, err := b.solve("terasort", "server1", 1, plan.Options{})
	if err != nil {
		return err
	}
	cost, at, err := b.apart(in, p.Needs.Architecture)
	if err != nil {
		return err
	}
	mappers, reducers := at.Tasks[0].Instances, at.Tasks[2].Instances
	same := mappers == 8 && reducers == 16 && at.Seconds[0] == 750
	b.note("T16", "Terasort, 50 GB in 25 min, mappers and reducers on servers of their own", "8 mappers, 16 reducers on 2 + 4 servers",
		fmt.Sprintf("%d mappers, %d reducers, %.0f + %.0f s: %s; %s where all share %d servers", mappers, reducers, at.Seconds[0], at.Seconds[1],
			dollars(cost), dollars(p.Cost), p.Packing.Servers()), same && cost == 13818 && p.Cost <= cost)
	s, disk := in.HW.Servers[0], in.HW.Units[0]
	balanced := 7 * (s.Cost() + 4*in.HW.CPU.Cost() + 2*disk.Cost())
	saves := 1 - cost/balanced
	b.note("T17", "against 7 balanced servers (4 cores, 2 disks)", "16% dearer; 15-20% saved", fmt.Sprintf("%s: %.1f%% dearer, %.1f%% saved", dollars(balanced), 100*(balanced/cost-1), 100*saves),
		balanced == 16618 && saves > 0.15 && saves < 0.2)
	return nil
}

// apart is the cheapest cluster, and its split of the time, if mappers and reducers
// have servers of their own, as in the published one.
func (b *bench) apart(in plan.Input, arch plan.Architecture) (cost float64, at plan.Needs, err error) {
	cost = math.Inf(1)
	total := in.SLA.Job.Time
	for t := 10.0; t < total; t += 10 {
		needs := plan.NeedsOf(in, arch, []float64{t, total - t})
		sum := 0.0
		for _, r := range needs.Roles {
			one := needs
			one.Roles = []plan.Role{r}
			s, err := pack.Solve(one.Problem(in), pack.Options{Interrupt: b.opt.Stop})
			if err != nil {
				return 0, at, err
			}
			sum += s.Cost
		}
		if sum < cost {
			cost, at = sum, needs
		}
	}
	return cost, at, nil
}

// sorts is Section 6.2: two ways to sort 100 TB.
func (b *bench) sorts() error {
	in, disk, err := b.solve("sort-on-disk", "table1", 1, plan.Options{})
	if err != nil {
		return err
	}
	b.note("T18", "100 TB on disk in 10,000 s", "$239K", fmt.Sprintf("%s: %d disks, %d servers", dollars(disk.Cost), units(in, disk, "7.2KDisk"), disk.Packing.Servers()),
		disk.Cost > 238.5e3 && disk.Cost < 239.5e3 && units(in, disk, "7.2KDisk") == 445)
	in, memory, err := b.solve("sort-in-memory", "table1", 1, plan.Options{})
	if err != nil {
		return err
	}
	chassis := 0.0
	for _, l := range memory.Bill(in) {
		if l.What != "7.2KDisk" {
			chassis += l.Each * float64(l.Count)
		}
	}
	ratio := memory.Cost / disk.Cost
	b.note("T19", "100 TB in memory in 5,000 s", "$5.6M, 24x", fmt.Sprintf("%s of servers and memory, %s with disks: %.1fx", dollars(chassis), dollars(memory.Cost), ratio),
		chassis > 5.6e6*0.97 && chassis < 5.6e6*1.03 && ratio > 23 && ratio < 25)
	return nil
}
