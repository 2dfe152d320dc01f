package curator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/lab"
	"gleaner/lab/curator/virtual"
	"gleaner/placement"
	"gleaner/sim/datacenter"
	"gleaner/sim/oltp"
	"gleaner/sim/tiers"
)

// What the paper leaves open of its run (NSDI'17 §3.4.2): how long a workload is executed, how many writes prefill has under way, and how long it is
// looked on after the last vDisks are destroyed.
const (
	executed = 20 * time.Minute
	streams  = 8
	lookedOn = 20 * time.Minute
)

// loads are how many times fewer requests arrive than in the paper: as many as in curator-learning, and twice as many, by which the HDDs are busy most of
// the time without upkeep.
func loads() []float64 { return []float64{slower, slower / 2} }

// sampled is how often space and latency are noted for the picture.
const sampled = 2 * time.Minute

// ssd and hdd are the tiers of the paper's cluster.
const ssd, hdd = cluster.Tier(disk.SSD), cluster.Tier(disk.HDD)

func runOnOff(ctx context.Context, o lab.Options) ([]lab.Table, []chart.Figure, error) {
	size, servers := OnOffSize{Smaller: 32, Seeds: o.Seeds, done: o.Done}, 100
	switch {
	case o.Quick:
		size.Smaller, servers = 128, datacenter.FewestServers
	case o.Full:
		size.Smaller, servers = 4, 400
	}
	both, err := OnOff(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	days, err := ThreeDays(ctx, servers, wavy)
	if err != nil {
		return nil, nil, err
	}
	return []lab.Table{both.Table(), days.Table()}, []chart.Figure{both.Figure()}, nil
}

// An OnOffSize says how large the experiment is.
type OnOffSize struct {
	Smaller float64 // how many times less data than in the paper, and how many times shorter
	Seeds   int

	done func(done, of int)
}

// A Run is the three workloads one after the other, each written, executed and destroyed.
type Run struct {
	LatencyMS  float64    // mean of all requests while workloads are executed
	ByWorkload [3]float64 // small, medium, large
	MeanTB     float64    // of the paper's size, over the run
	LargeTB    float64    // when the last workload was executed
	EndTB      float64
	EndSSD     float64 // share of the tier's space
	EndHDD     float64
	DownGB     float64 // moved from SSDs to HDDs
	IOPS       float64 // of all disks
	Samples    []Sample
}

// A Sample is how a run is at some time.
type Sample struct {
	Minute    float64 // of the paper's size
	SSD, HDD  float64 // shares
	LatencyMS float64 // since the last sample; NaN if nothing was executed
}

// A Switch is the runs with upkeep and without, one a seed.
type Switch struct {
	Slower  float64 // how many times fewer requests arrive than in the paper
	On, Off []Run
}

// Switches are one for each load.
type Switches []Switch

// OnOff runs the workloads of appendix C with upkeep and without.
func OnOff(ctx context.Context, size OnOffSize) (Switches, error) {
	var all Switches
	done, of := 0, 2*size.Seeds*len(loads())
	for _, load := range loads() {
		s := Switch{Slower: load}
		for seed := range uint64(size.Seeds) {
			for _, runs := range []*[]Run{&s.On, &s.Off} {
				r, err := playAll(ctx, size.Smaller, load, seed+1, runs == &s.Off)
				if err != nil {
					return nil, err
				}
				*runs = append(*runs, r)
				done++
				size.done(done, of)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// A course is a run on its way.
type course struct {
	fabric          *virtual.Fabric
	rng             *rand.Rand
	smaller, slower float64
	at              time.Duration
	sampled         time.Duration // when the next sample is due
	used            sum           // in bytes
	latency         [3]sum
	recent          sum
	samples         []Sample
}

func playAll(ctx context.Context, smaller, slower float64, seed uint64, off bool) (Run, error) {
	f, err := paperCluster(ctx, smaller, seed, off)
	if err != nil {
		return Run{}, err
	}
	c := &course{fabric: f, rng: rand.New(rand.NewPCG(seed, 0)), smaller: smaller, slower: slower}
	for i, name := range oltp.Names()[:3] {
		if err := c.play(ctx, name, &c.latency[i]); err != nil {
			return Run{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	_, _, bytes := c.usage()
	if err := c.wait(ctx, c.scaled(lookedOn)); err != nil {
		return Run{}, err
	}
	r := c.result()
	r.LargeTB = c.terabytes(float64(bytes))
	return r, nil
}

// paperCluster has the paper's four nodes, each with an SSD and two HDDs.
func paperCluster(ctx context.Context, smaller float64, seed uint64, off bool) (*virtual.Fabric, error) {
	o := virtual.Options{Start: start(), Faster: smaller, Tiers: []cluster.Tier{ssd, hdd}, Policy: upkeep.Default(), Off: off, Seed: seed}
	cfg := tiers.Paper()
	for i := range cfg.SSDs {
		name := fmt.Sprint("node", i)
		o.Owners = append(o.Owners, placement.Tenant{Environment: name, Function: name})
		o.Servers = append(o.Servers, placement.Server{Tenant: placement.TenantIndex(i), Rack: name})
	}
	f, err := virtual.New(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range cfg.SSDs + cfg.HDDs {
		tier, kind := ssd, cfg.SSD
		if i >= cfg.SSDs {
			tier, kind = hdd, cfg.HDD
		}
		kind.Capacity = int64(float64(kind.Capacity) / smaller)
		f.AddDisk(cluster.DiskID(fmt.Sprintf("%s-%d", tier, i)), placement.ServerIndex(i%cfg.SSDs), tier, kind)
	}
	return f, nil
}

func (c *course) scaled(t time.Duration) time.Duration { return time.Duration(float64(t) / c.smaller) }

// play writes the vDisks of a workload, executes it and destroys them.
func (c *course) play(ctx context.Context, name string, latency *sum) error {
	w, err := oltp.Find(name)
	if err != nil {
		return err
	}
	if w, err = w.Scaled(c.smaller, c.slower); err != nil {
		return err
	}
	var vdisks []disk.VDiskID
	for _, size := range w.VDisks() {
		id, err := c.fabric.Create(ctx, size, 2)
		if err != nil {
			return err
		}
		vdisks = append(vdisks, id)
	}
	if err := c.prefill(ctx, vdisks, w.VDisks()); err != nil {
		return err
	}
	if err := c.execute(ctx, w, vdisks, latency); err != nil {
		return err
	}
	for _, id := range vdisks {
		if err := c.fabric.Remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// prefill writes vDisks from beginning to end, as fast as the disks take it, so that all are done at the same time.
func (c *course) prefill(ctx context.Context, vdisks []disk.VDiskID, sizes []int64) error {
	under := slices.Repeat([]time.Duration{c.at}, streams)
	written := make([]int64, len(vdisks))
	for {
		v := 0
		for i := range written {
			if float64(written[i])/float64(sizes[i]) < float64(written[v])/float64(sizes[v]) {
				v = i
			}
		}
		if written[v] == sizes[v] {
			c.pass(slices.Max(under))
			return nil
		}
		first := slices.Index(under, slices.Min(under))
		c.pass(under[first])
		done, err := c.fabric.Write(ctx, c.at, vdisks[v], written[v], disk.BlockSize)
		if err != nil {
			return err
		}
		under[first] = done
		written[v] += disk.BlockSize
	}
}

// execute plays the requests of a workload.
func (c *course) execute(ctx context.Context, w oltp.Workload, vdisks []disk.VDiskID, latency *sum) error {
	from, length := c.at, c.scaled(executed)
	stream := w.Requests(c.rng)
	for r := stream.Next(); r.At < length; r = stream.Next() {
		c.pass(from + r.At)
		do := c.fabric.Read
		if r.Write {
			do = c.fabric.Write
		}
		done, err := do(ctx, c.at, vdisks[r.VDisk], r.Offset, r.Size)
		if err != nil {
			return err
		}
		ms := 1e3 * (done - c.at).Seconds()
		latency.add(ms)
		c.recent.add(ms)
	}
	c.pass(from + length)
	return c.fabric.Advance(ctx, c.at)
}

func (c *course) wait(ctx context.Context, length time.Duration) error {
	for end := c.at + length; c.at < end; {
		c.pass(min(end, c.at+c.scaled(sampled)))
		if err := c.fabric.Advance(ctx, c.at); err != nil {
			return err
		}
	}
	return nil
}

// pass goes on to a time, and notes how it is meanwhile.
func (c *course) pass(to time.Duration) {
	for ; c.sampled <= to; c.sampled += c.scaled(sampled) {
		s := Sample{Minute: c.sampled.Minutes() * c.smaller, LatencyMS: c.recent.mean()}
		var bytes int64
		s.SSD, s.HDD, bytes = c.usage()
		c.used.add(float64(bytes))
		c.samples = append(c.samples, s)
		c.recent = sum{}
	}
	c.at = to
}

// usage is how full the tiers are, and how many bytes that is.
func (c *course) usage() (onSSD, onHDD float64, bytes int64) {
	share := func(tier cluster.Tier) float64 {
		var used, capacity int64
		for _, d := range c.fabric.Disks(tier) {
			used, capacity = used+d.Used, capacity+d.Kind.Capacity
		}
		bytes += used
		return float64(used) / float64(capacity)
	}
	return share(ssd), share(hdd), bytes
}

// terabytes are those of the paper's size.
func (c *course) terabytes(bytes float64) float64 { return bytes * c.smaller / 1e12 }

func (c *course) result() Run {
	r := Run{Samples: c.samples, MeanTB: c.terabytes(c.used.mean())}
	var all sum
	for i, l := range c.latency {
		r.ByWorkload[i] = l.mean()
		all.total, all.n = all.total+l.total, all.n+l.n
	}
	r.LatencyMS = all.mean()
	var bytes, operations int64
	r.EndSSD, r.EndHDD, bytes = c.usage()
	r.EndTB = c.terabytes(float64(bytes))
	for _, d := range append(c.fabric.Disks(ssd), c.fabric.Disks(hdd)...) {
		operations += d.Reads + d.Writes
	}
	r.DownGB = 1e3 * c.terabytes(float64(c.fabric.Upkeep(c.at).Done[upkeep.TierDown]*disk.GroupSize))
	r.IOPS = float64(operations) / c.at.Seconds()
	return r
}

// Table lists what upkeep changes, the paper's beside ours.
func (all Switches) Table() lab.Table {
	t := lab.Table{Name: "curator-onoff", Title: "OLTP small, medium and large, with upkeep and without (NSDI'17 §3.4.2)",
		Columns: []string{"what", "with", "without", "paper: with", "paper: without"},
		Notes: []string{
			"each workload is written, executed for 20 minutes and destroyed; latency is of the execution; the end is 20 minutes after the last vDisks are destroyed",
			"sizes and rates of the workloads and the lengths of the phases are not in the paper's text: see sim/oltp and docs/curator-onoff.md",
			"disks: the paper's number and capacity, the speeds of FAST'12; data and time are scaled down alike, so that disks are as busy as in the full size",
		}}
	for _, s := range all {
		t.Add(fmt.Sprintf("latency ms, 1/%.0f of the requests", s.Slower), spreadOf(2, s.On, func(r Run) float64 { return r.LatencyMS }), spreadOf(2, s.Off, func(r Run) float64 { return r.LatencyMS }), 12, 62)
		for i, name := range oltp.Names()[:3] {
			of := func(r Run) float64 { return r.ByWorkload[i] }
			t.Add("  "+name, spreadOf(2, s.On, of), spreadOf(2, s.Off, of), "", "")
		}
	}
	s := all[0]
	for _, row := range []struct {
		what    string
		of      func(Run) float64
		digits  int
		on, off any
	}{
		{"TB in use, mean", func(r Run) float64 { return r.MeanTB }, 2, 2, 3},
		{"TB before the last is destroyed", func(r Run) float64 { return r.LargeTB }, 2, "", ""},
		{"TB at the end", func(r Run) float64 { return r.EndTB }, 2, 2.27, 5},
		{"SSDs at the end, %", func(r Run) float64 { return 100 * r.EndSSD }, 0, 76, 96},
		{"HDDs at the end, %", func(r Run) float64 { return 100 * r.EndHDD }, 0, 6, 23},
		{"GB moved to HDDs", func(r Run) float64 { return r.DownGB }, 0, "", ""},
		{"IOPS of all disks", func(r Run) float64 { return r.IOPS }, 0, 1400, 1150},
	} {
		t.Add(row.what, spreadOf(row.digits, s.On, row.of), spreadOf(row.digits, s.Off, row.of), row.on, row.off)
	}
	return t
}

// spreadOf is the mean over the seeds, and the least and most if there are several.
func spreadOf(digits int, runs []Run, of func(Run) float64) string {
	low, high, mean := of(runs[0]), of(runs[0]), 0.0
	for _, r := range runs {
		low, high, mean = min(low, of(r)), max(high, of(r)), mean+of(r)/float64(len(runs))
	}
	if len(runs) == 1 {
		return decimals(digits, mean)
	}
	return fmt.Sprintf("%s (%s to %s)", decimals(digits, mean), decimals(digits, low), decimals(digits, high))
}

// Figure draws space over time as Figure 6 of the paper does, and latency, of the first seed and the higher load.
func (all Switches) Figure() chart.Figure {
	last := all[len(all)-1]
	line := func(name string, r Run, of func(Sample) float64, dashed bool) chart.Line {
		l := chart.Line{Name: name, Dashed: dashed}
		for _, s := range r.Samples {
			l.X, l.Y = append(l.X, s.Minute), append(l.Y, of(s))
		}
		return l
	}
	both := func(title, y string, of func(Sample) float64) chart.Panel {
		return chart.Panel{Title: title, X: "minutes", Y: y, Lines: []chart.Line{line("with upkeep", last.On[0], of, false), line("without", last.Off[0], of, true)}}
	}
	return chart.Figure{Name: "curator-onoff", Panels: []chart.Panel{
		both("SSDs", "in use (%)", func(s Sample) float64 { return 100 * s.SSD }),
		both("HDDs", "in use (%)", func(s Sample) float64 { return 100 * s.HDD }),
		both("latency while workloads are executed", "mean (ms)", func(s Sample) float64 { return s.LatencyMS }),
	}}
}
