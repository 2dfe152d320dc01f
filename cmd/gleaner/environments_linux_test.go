package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
	"gleaner/fabric/maps"
	"gleaner/fabric/nbd"
	"gleaner/fabric/registry"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// A town is 60 data servers of 20 tenants in 12 environments, and their front. Six servers are processes; the others are of this
// process, each with a disk in memory and a socket of its own.
type town struct {
	t       *testing.T
	where   *registry.Registry
	data    string
	disks   string // of the processes
	servers []*townServer
	store   kv.Store
	front   *fabric.Front

	device nbd.Device
	want   []byte // what the device has
	rng    *rand.Rand
}

type townServer struct {
	cluster.Server
	tenant int
	life   int // how often it was set up
	stop   func()
}

const (
	townServers      = 60
	townTenants      = 20
	townEnvironments = 12
	townProcesses    = 6
	townQuota        = 128 << 20
)

func newTown(t *testing.T, seed uint64, size int64) *town {
	t.Helper()
	data, err := os.MkdirTemp("/dev/shm", "town") // every entry of the registry is synced
	if err != nil {
		data, err = os.MkdirTemp("", "town") // short, for the sockets in it
	}
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(data) })
	w := &town{t: t, data: data, disks: t.TempDir(), store: mem.New(), want: make([]byte, size), rng: rand.New(rand.NewPCG(seed, 1))}
	w.where, err = registry.Open(data)
	must(t, err)
	for i := range townServers {
		tenant := i % townTenants
		s := &townServer{Server: cluster.Server{ID: cluster.ServerID(fmt.Sprintf("s%02d", i)), Environment: fmt.Sprint("e", tenant%townEnvironments), Function: fmt.Sprint("f", tenant%7), Rack: fmt.Sprint("r", i/3)}, tenant: tenant}
		w.servers = append(w.servers, s)
		w.setUp(s)
	}
	w.front, err = fabric.Open(t.Context(), fabric.Options{Store: w.store, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	must(t, err)
	watching, stop := context.WithCancel(context.Background())
	w.await("all servers are known", func() bool { all, err := w.where.Servers(w.t.Context()); return err == nil && len(all) == townServers })
	must(t, w.front.Watch(watching, w.where))
	t.Cleanup(func() {
		stop()
		must(t, w.front.Close())
		for _, s := range w.servers {
			s.stop()
		}
	})
	w.front.Learn(w.habits())
	_, err = w.front.Create(t.Context(), "v", size, 3)
	must(t, err)
	w.device, err = w.front.Exports().Open(t.Context(), "v")
	must(t, err)
	t.Cleanup(func() { must(t, w.device.Close()) })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *town) await(what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// habits are what a history would say: no two tenants are reimaged equally often, nor have an equal peak.
func (w *town) habits() map[cluster.TenantID]fabric.Habit {
	known := map[cluster.TenantID]fabric.Habit{}
	for _, s := range w.servers {
		known[s.Tenant()] = fabric.Habit{Reimages: townRate(s.tenant), Peak: townPeak(s.tenant)}
	}
	return known
}

func townRate(tenant int) float64 { return float64(tenant*7%townTenants) + 1 }
func townPeak(tenant int) float64 { return float64(tenant*3%townTenants) / townTenants }

// setUp starts a server with an empty disk.
func (w *town) setUp(s *townServer) {
	w.t.Helper()
	s.life++
	if s.tenant < townProcesses/3 {
		w.startProcess(s)
	} else {
		w.startHere(s)
	}
}

func (w *town) startProcess(s *townServer) {
	w.t.Helper()
	path := filepath.Join(w.disks, string(s.ID))
	must(w.t, os.RemoveAll(path))
	must(w.t, os.Mkdir(path, 0o700))
	cmd := exec.Command("gleaner", "node", "--data", w.data, "--server", string(s.ID), "--disk", fmt.Sprintf("ssd:%s:%dMiB", path, townQuota>>20),
		"--environment", s.Environment, "--function", s.Function, "--rack", s.Rack)
	must(w.t, cmd.Start())
	s.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}

func (w *town) startHere(s *townServer) {
	w.t.Helper()
	const dir = "/disk"
	memory := disktest.New(2*townQuota, dir)
	id := disk.Identity{Cluster: w.where.ID, Disk: fmt.Sprintf("%s-%d", s.ID, s.life), Tier: disk.SSD, Quota: townQuota, Salt: 1}
	must(w.t, disk.Format(memory, dir, id))
	d, err := disk.Open(memory, dir, disk.Options{Cluster: w.where.ID})
	must(w.t, err)
	claim, err := w.where.Claim(w.t.Context(), string(s.ID))
	must(w.t, err)
	l, err := dataserver.Listen(w.where.Socket(string(s.ID)))
	must(w.t, err)
	must(w.t, claim.Announce(w.t.Context(), registry.Server{Address: dataserver.Address(l), PID: os.Getpid(), Environment: s.Environment, Function: s.Function, Rack: s.Rack,
		Disks: []registry.Disk{{ID: id.Disk, Tier: disk.SSD, Path: dir, Quota: townQuota}}}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = dataserver.Serve(ctx, l, dataserver.Cluster{ID: w.where.ID, Key: w.where.Key}, []*dataserver.LocalDisk{dataserver.Local(d)}, dataserver.Options{})
		d.Close()
		claim.Release()
	}()
	s.stop = func() {
		stop()
		<-ended
	}
}

// reimage wipes all disks of environments at once. Their servers come back empty.
func (w *town) reimage(environments ...string) {
	w.t.Helper()
	var all []*townServer
	for _, s := range w.servers {
		if slices.Contains(environments, s.Environment) {
			s.stop()
			all = append(all, s)
		}
	}
	for _, s := range all {
		w.setUp(s)
	}
}

// write writes here and there.
func (w *town) write(times int) {
	w.t.Helper()
	size := int64(len(w.want))
	for range times {
		at := w.rng.Int64N(size/4096) * 4096
		n := min(size-at, int64(1+w.rng.IntN(8))*4096)
		for i := at; i < at+n; i += 8 {
			w.want[i] = byte(w.rng.Uint32())
		}
		must(w.t, w.device.WriteAt(w.t.Context(), w.want[at:at+n], at, false))
	}
}

// read compares every byte.
func (w *town) read() {
	w.t.Helper()
	got := make([]byte, 1<<20)
	for at := 0; at < len(w.want); at += len(got) {
		must(w.t, w.device.ReadAt(w.t.Context(), got, int64(at)))
		if !bytes.Equal(got, w.want[at:at+len(got)]) {
			w.t.Fatalf("other bytes than were written, from %d on", at)
		}
	}
}

// replicas gives the servers of each group, by the maps and the registry alone. A disk that is at none of them any more gives nil.
func (w *town) replicas() (groups [][]*townServer) {
	w.t.Helper()
	entries, err := w.where.Servers(w.t.Context())
	must(w.t, err)
	home := map[cluster.DiskID]*townServer{}
	for _, e := range entries {
		for _, s := range w.servers {
			if string(s.ID) == e.Name {
				home[cluster.DiskID(e.Disks[0].ID)] = s
			}
		}
	}
	for g, err := range w.maps().Groups(w.t.Context()) {
		must(w.t, err)
		var on []*townServer
		for _, d := range g.Good {
			on = append(on, home[d])
		}
		groups = append(groups, on)
	}
	return groups
}

// lacking counts the groups that lack a replica or have one on a disk that is no more.
func (w *town) lacking() (n int) {
	for _, on := range w.replicas() {
		if len(on) < 3 || slices.Contains(on, nil) {
			n++
		}
	}
	return n
}

// whole waits until every group has three replicas, and nothing is amiss.
func (w *town) whole() {
	w.t.Helper()
	w.await("every group has three good replicas", func() bool { return w.lacking() == 0 })
	var report fabric.Report
	var err error
	w.await("the check is clean", func() bool {
		report, err = w.front.Check(w.t.Context(), func(int, int) {})
		return err == nil && report.Missing+report.Corrupt+len(report.Errors) == 0
	})
	if report.Groups == 0 || report.Replicas != 3*report.Groups {
		w.t.Fatalf("%+v, %v", report, err)
	}
}

// shared counts the groups that have two replicas with the same of something.
func shared[T comparable](groups [][]*townServer, of func(*townServer) T) (n int) {
	for _, on := range groups {
		seen := map[T]bool{}
		for _, s := range on {
			seen[of(s)] = true
		}
		if len(seen) < len(on) {
			n++
		}
	}
	return n
}

func environmentOf(s *townServer) string { return s.Environment }
func functionOf(s *townServer) string    { return s.Function }
func rackOf(s *townServer) string        { return s.Rack }

// townCells gives row and column of the tenants that are reimaged least, which have half of the space, as docs/decisions/0006 says: all have the same space here, so
// each third, and each third of that, ends at the nearest tenant.
func townCells() map[int][2]int {
	var tenants []int
	for t := range townTenants {
		tenants = append(tenants, t)
	}
	slices.SortFunc(tenants, func(a, b int) int { return cmp.Compare(townRate(a), townRate(b)) })
	tenants = tenants[:townTenants/2]
	border := func(cell int) int { return int(math.Round(float64(len(tenants)*cell) / 9)) }
	cells := map[int][2]int{}
	for column := range 3 {
		in := tenants[border(3*column):border(3*column+3)]
		slices.SortFunc(in, func(a, b int) int { return cmp.Compare(townPeak(a), townPeak(b)) })
		for row := range 3 {
			for _, t := range tenants[border(3*column+row):border(3*column+row+1)] {
				cells[t] = [2]int{row, column}
			}
		}
	}
	return cells
}

// TestWholeEnvironmentsAreReimaged: three replicas are in three environments, functions, racks, rows and columns, with the tenants that are
// reimaged least. So whichever environment is wiped, and another before the first is repaired, nothing is lost, and what is rebuilt is
// in three environments again.
func TestWholeEnvironmentsAreReimaged(t *testing.T) {
	t.Parallel()
	size, environments, storms := int64(64<<20), 3, 2
	if os.Getenv("GLEANER_LONG") != "" {
		size, environments, storms = 128<<20, townEnvironments, 12
	}
	w := newTown(t, 1, size)
	w.write(int(size >> 18))
	w.whole()
	groups, cells := w.replicas(), townCells()
	for what, n := range map[string]int{
		"environment": shared(groups, environmentOf),
		"function":    shared(groups, functionOf),
		"rack":        shared(groups, rackOf),
		"row":         shared(groups, func(s *townServer) int { return cells[s.tenant][0] }),
		"column":      shared(groups, func(s *townServer) int { return cells[s.tenant][1] }),
	} {
		if n > 0 {
			t.Errorf("%d of %d groups have two replicas in one %s", n, len(groups), what)
		}
	}
	used := map[int]bool{}
	for _, on := range groups {
		for _, s := range on {
			if _, seldom := cells[s.tenant]; !seldom {
				t.Errorf("a replica is with tenant %d, which is reimaged often", s.tenant)
			}
			used[s.tenant] = true
		}
	}
	if stat, err := w.front.Stat(t.Context(), "v"); err != nil || stat.Placement.Well != len(groups) || len(stat.Placement.Wishes) != 5 || stat.Placement.Groups != len(groups) {
		t.Errorf("stat says %+v, %v", stat.Placement, err)
	}
	t.Logf("%d groups with %d tenants keep every wish", len(groups), len(used))

	for _, e := range w.fullest()[:environments] {
		w.reimage(e)
		w.write(20)
		w.repaired(e)
	}
	for i := range storms {
		first, second, groups := w.closest()
		if groups == 0 {
			t.Fatal("no group has replicas in two environments")
		}
		if i%2 == 0 {
			w.reimage(first, second)
		} else {
			w.reimage(first)
			w.write(5)
			w.reimage(second)
		}
		w.write(5)
		w.repaired(fmt.Sprintf("%s and %s, which share %d groups", first, second, groups))
	}
	w.remembered()
}

// remembered looks whether each reimage was noticed.
func (w *town) remembered() {
	w.t.Helper()
	noticed := map[cluster.ServerID]int{}
	for s, err := range w.maps().Servers(w.t.Context()) {
		must(w.t, err)
		noticed[s.Name] = s.Reimages
	}
	for _, s := range w.servers {
		if noticed[s.ID] != s.life-1 {
			w.t.Errorf("%s was reimaged %d times, of which %d were noticed", s.ID, s.life-1, noticed[s.ID])
		}
	}
}

// maps reads what the front keeps, beside it.
func (w *town) maps() *maps.Maps {
	w.t.Helper()
	m, err := maps.Open(w.t.Context(), w.store, kv.NewWriter(w.rng.Uint64()))
	must(w.t, err)
	return m
}

// fullest gives the environments, those with the most replicas first.
func (w *town) fullest() (all []string) {
	holds := map[string]int{}
	for _, on := range w.replicas() {
		for _, s := range on {
			holds[s.Environment]++
		}
	}
	for e := range townEnvironments {
		all = append(all, fmt.Sprint("e", e))
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(holds[b], holds[a]) })
	return all
}

// closest gives two environments that have replicas of the same groups, more of them than any other two.
func (w *town) closest() (first, second string, groups int) {
	common := map[[2]string]int{}
	for _, on := range w.replicas() {
		for _, a := range on {
			for _, b := range on {
				pair := [2]string{a.Environment, b.Environment}
				if common[pair]++; a != b && common[pair] > groups {
					first, second, groups = pair[0], pair[1], common[pair]
				}
			}
		}
	}
	return first, second, groups
}

// repaired waits for the repair and looks whether all is there and apart.
func (w *town) repaired(after string) {
	w.t.Helper()
	begin, lost := time.Now(), w.lacking()
	w.read() // while it is repaired
	w.whole()
	w.read()
	groups := w.replicas()
	if n := shared(groups, environmentOf); n > 0 {
		w.t.Errorf("after %s: %d of %d groups have two replicas in one environment", after, n, len(groups))
	}
	w.t.Logf("%s: %d of %d groups lacked replicas; whole after %v; %d share a function, %d a rack", after, lost, len(groups),
		time.Since(begin).Round(100*time.Millisecond), shared(groups, functionOf), shared(groups, rackOf))
}
