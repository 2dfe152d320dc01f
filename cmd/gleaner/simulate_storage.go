package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
	"gleaner/placement"
	"gleaner/sim/datacenter"
	"gleaner/simulation"
)

type storageFlags struct {
	datacenterFlags
	reimages []string
	apart    []string
	access   bool
	run      simulation.Storage
}

func newSimulateStorage() *cobra.Command {
	var f storageFlags
	cmd := &cobra.Command{
		Use:   "storage [--datacenter NAME | --servers FILE --reimages FILE]",
		Short: "Count the blocks that a year of reimages destroys, and the reads that busy servers deny",
		Long: `Storage fills the servers' spare disks with blocks, each replicated by the placement
policy, and simulates the reimages of a year. Lost replicas are rebuilt at 30 blocks
an hour and server; a block is lost if its last replica is destroyed before that. With
--access it also reads blocks at random times of a month; a read fails if all servers
that hold the block are busy (their primaries use more than 66% of the CPU).

Placements: paper is Algorithm 2 of OSDI'16, which keeps replicas apart by the
tenants' reimages, peaks and environments, as learned from the time before the
simulated days; history is the same with one replica, if possible, on a server that
is never busy, and prefers the tenants that are reimaged least while they have room;
stock is the policy of HDFS; random places at random.

It also prints how many replicas were rebuilt, which is the cost of safety, and the
shares of replicas with the tenants of the least, the medium and the most reimaged
third of the space (columns).`,
		Example: `  gleaner simulate storage --datacenter DC-9
  gleaner simulate storage --datacenter DC-9 --placement stock --replicas 4
  gleaner simulate storage --datacenter DC-9 --access --utilisation 0.5 --days 0
  gleaner simulate storage --servers servers.csv --reimages reimages.csv --blocks 100000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.simulate(cmd) },
	}
	f.register(cmd, "server,environment,function,rack,…,disk_gb")
	cmd.Flags().StringArrayVar(&f.reimages, "reimages", nil, "the reimage log (time,server,cause), whose last --days are simulated; may be given again")
	cmd.Flags().StringVar(&f.run.Placement, "placement", "history", strings.Join(simulation.Placements, ", "))
	cmd.Flags().StringSliceVar(&f.apart, "apart", nil, "further rules by which history and paper keep replicas apart: racks, functions")
	cmd.Flags().IntVar(&f.run.Blocks, "blocks", 4_000_000, "how many blocks of 256 MB")
	cmd.Flags().IntVar(&f.run.Replicas, "replicas", 3, "how many replicas of each")
	cmd.Flags().IntVar(&f.run.Days, "days", 365, "days of reimages; 0 for none")
	cmd.Flags().BoolVar(&f.access, "access", false, "also read as many blocks at random times of a month")
	cmd.Flags().Uint64Var(&f.run.Seed, "seed", 1, "seed of all random numbers")
	return cmd
}

// storageOut is the JSON of simulate storage.
type storageOut struct {
	Placement      string             `json:"placement"`
	Servers        int                `json:"servers"`
	Blocks         int                `json:"blocks"`
	Replicas       int                `json:"replicas"`
	Reimages       int                `json:"reimages"`
	Rebuilt        int                `json:"rebuilt"`
	RebuiltBytes   int64              `json:"rebuilt_bytes"`
	Lost           int                `json:"lost_blocks"`
	Placed         simulation.Columns `json:"columns_at_start"`
	Ended          simulation.Columns `json:"columns_at_end"`
	Accesses       int                `json:"accesses"`
	FailedAccesses int                `json:"failed_accesses"`
	WallSeconds    float64            `json:"wall_seconds"`
}

func (f *storageFlags) simulate(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	d, err := f.open(cmd)
	if err != nil {
		return err
	}
	if d, err = f.scaled(d); err != nil {
		return err
	}
	if f.access {
		f.run.Accesses = f.run.Blocks
	}
	begun := time.Now()
	bar := newProgress(cmd, "days", int64(f.run.Days))
	defer bar.finish()
	result, err := f.run.Run(d, func(share float64) error {
		bar.add(int64(share*float64(f.run.Days)) - bar.done)
		return cmd.Context().Err()
	})
	var refused *placement.DiversityError
	if errors.As(err, &refused) {
		return input.Errorf("--blocks", "%d do not fit: %v", f.run.Blocks, err)
	}
	if err != nil {
		return err
	}
	bar.finish()
	if result.Refused > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s found no server that keeps the rules; retried an hour later\n", counted(result.Refused, "rebuild"))
	}
	return printStorage(cmd, storageOf(f.run, d, result, time.Since(begun)))
}

func storageOf(run simulation.Storage, d *datacenter.Datacenter, result simulation.StorageResult, took time.Duration) storageOut {
	return storageOut{
		Placement: run.Placement, Servers: len(d.Servers), Blocks: run.Blocks, Replicas: run.Replicas,
		Reimages: result.Reimages, Rebuilt: result.Rebuilt, RebuiltBytes: result.RebuiltBytes(), Lost: result.Lost,
		Placed: result.Placed, Ended: result.Ended,
		Accesses: run.Accesses, FailedAccesses: result.FailedAccesses, WallSeconds: took.Seconds(),
	}
}

func (f *storageFlags) check(cmd *cobra.Command) error {
	if flag, gave := given(cmd, "access", "utilisation"); gave && len(f.reimages) > 0 {
		return input.Errorf(flag, "servers and reimages files have no utilisation; give --datacenter")
	}
	if err := f.datacenterFlags.check(cmd, "--reimages", len(f.reimages)); err != nil {
		return err
	}
	switch {
	case f.run.Blocks < 1 || f.run.Blocks > 1<<31:
		return input.Errorf("--blocks", "%d is not between 1 and %d", f.run.Blocks, 1<<31)
	case f.run.Replicas < 1 || f.run.Replicas > 9:
		return input.Errorf("--replicas", "%d is not between 1 and 9", f.run.Replicas)
	case f.run.Days < 0 || f.run.Days > 365:
		return input.Errorf("--days", "%d is not between 0 and 365", f.run.Days)
	case !slices.Contains(simulation.Placements, f.run.Placement):
		return input.Errorf("--placement", "unknown placement %q; there are %s", f.run.Placement, strings.Join(simulation.Placements, ", "))
	}
	for _, name := range f.apart {
		if !f.learns() {
			return input.Errorf("--apart", "is for the placements history and paper; %s keeps no rules", f.run.Placement)
		}
		switch name {
		case "racks":
			f.run.Apart |= placement.Racks
		case "functions":
			f.run.Apart |= placement.Functions
		default:
			return input.Errorf("--apart", "unknown %q; there are racks, functions", name)
		}
	}
	return nil
}

func (f *storageFlags) open(cmd *cobra.Command) (*datacenter.Datacenter, error) {
	if len(f.servers) > 0 {
		return f.openFiles(cmd)
	}
	o := datacenter.Options{Past: 31, Seed: f.run.Seed}
	if f.access {
		o.Days = 31
	}
	return f.generate(o)
}

// openFiles makes a datacenter of a servers file and a reimage log. The log's last
// days are simulated, those before are for learning.
func (f *storageFlags) openFiles(cmd *cobra.Command) (*datacenter.Datacenter, error) {
	servers, err := readServers(f.servers)
	if err != nil {
		return nil, err
	}
	log, err := readReimages(cmd, f.reimages, history.ReadOptions{})
	if err != nil {
		return nil, err
	}
	if err := f.checkServers(servers); err != nil {
		return nil, err
	}
	index := make(map[cluster.ServerID]int32, len(servers))
	for i, s := range servers {
		index[s.ID] = int32(i)
	}
	var reimages []datacenter.Reimage
	strays := 0
	for _, r := range log {
		if i, ok := index[r.Server]; ok {
			reimages = append(reimages, datacenter.Reimage{At: r.At, Server: i})
		} else {
			strays++
		}
	}
	if len(reimages) == 0 {
		return nil, input.Errorf(f.reimages[0], "holds no reimage of a server in %s", f.servers[0])
	}
	slices.SortStableFunc(reimages, func(a, b datacenter.Reimage) int { return a.At.Compare(b.At) })
	now := reimages[len(reimages)-1].At.Add(time.Second).AddDate(0, 0, -f.run.Days)
	if strays > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "left out %s of servers that are not in the servers file\n", counted(strays, "reimage"))
	}
	if f.learns() && !reimages[0].At.Before(now) {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are no reimages before the last %s to learn from\n", counted(f.run.Days, "day"))
	}
	d := datacenter.New(f.servers[0], cluster.Window{Step: datacenter.Slot}, now)
	d.Reimages = reimages
	for _, s := range servers {
		d.Add(s, nil)
	}
	return d, nil
}

// learns reports whether the placement learns from the time before the simulated days.
func (f *storageFlags) learns() bool {
	return f.run.Placement == "history" || f.run.Placement == "paper"
}

// checkServers refuses a servers file that lacks what placement needs. Not every
// policy needs racks, but simulations are made to be compared.
func (f *storageFlags) checkServers(servers []cluster.Server) error {
	room := false
	for _, s := range servers {
		room = room || s.Disk >= simulation.BlockBytes
		if s.Rack == "" {
			return input.Errorf(f.servers[0], "server %s has no rack: placement must know which servers share one", s.ID)
		}
	}
	if !room {
		return input.Errorf(f.servers[0], "no server has room for a block; is disk_gb missing?")
	}
	return nil
}

func printStorage(cmd *cobra.Command, r storageOut) error {
	if wantJSON(cmd) {
		return printJSON(cmd, r)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s of %s on %s, placed by %s\n", counted(r.Blocks, "block"), counted(r.Replicas, "replica"), counted(r.Servers, "server"), r.Placement)
	t := newTable("", ">")
	t.row("reimages", fmt.Sprint(r.Reimages))
	t.row("replicas rebuilt", fmt.Sprint(r.Rebuilt))
	t.row("bytes rebuilt", fmt.Sprintf("%.1f TB", float64(r.RebuiltBytes)/1e12))
	t.row("blocks lost", fmt.Sprint(r.Lost))
	t.row("columns at the start", r.Placed.String())
	t.row("columns at the end", r.Ended.String())
	if r.Accesses > 0 {
		t.row("accesses", fmt.Sprint(r.Accesses))
		t.row("accesses failed", fmt.Sprint(r.FailedAccesses))
	}
	return t.print(out)
}
