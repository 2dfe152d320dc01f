package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	gomaps "maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// TestModel runs random requests to vDisks beside a model that holds, for each sector,
// what it may be. Disks go away and come back, are killed, lose power or are wiped; the front is killed between
// requests and inside them; the power is cut everywhere; snapshots and clones are made and removed; replicas are rebuilt, and moved to other disks; groups are packed,
// share what is equal, and rot; upkeep scans the maps and does what follows, as far as it is not refused.
func TestModel(t *testing.T) {
	t.Parallel()
	first, last := 1, 50
	if testing.Short() {
		last = 30
	}
	if os.Getenv("GLEANER_LONG") != "" {
		last = 1000
	}
	if text := os.Getenv("GLEANER_SEED"); text != "" {
		seed, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("GLEANER_SEED=%s is not a number", text)
		}
		first, last = seed, seed
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var moved, packed, shared, coded int
	kept := map[string]int{}
	for seed := first; seed <= last; seed++ {
		w := newWorld(uint64(seed))
		w.trees, w.holes = seed%4 == 0, seed%4 == 2
		if err := w.run(); err != nil {
			t.Fatalf("seed %d; again with: GLEANER_SEED=%d go test -run '^TestModel$' ./fabric/volume\n%s\n%v", seed, seed, strings.Join(w.trail, "\n"), err)
		}
		w.end()
		moved, packed, shared, coded = moved+w.moved, packed+w.packed, shared+w.shared, coded+w.coded
		for kind, n := range w.kept {
			kept[kind] += n
		}
	}
	t.Logf("seeds %d to %d, %d replicas moved, %d groups packed, %d coded, %d extents shared, tasks of upkeep: %v", first, last, moved, packed, coded, shared, kept)
}

const sector = 512

// world is a cluster and what it should hold.
type world struct {
	rng   *rand.Rand
	store kv.Store
	fuse  *fuse
	bays  []*bay
	hurt  map[cluster.DiskID]bool // disks that may lack replicas
	gone  []cluster.DiskID        // wiped
	trail []string

	maps    *maps.Maps
	space   *Space
	writer  uint64
	disks   map[string]*content
	next    uint64 // tag
	names   int
	moved   int                             // replicas
	packed  int                             // groups
	shared  int                             // extents
	coded   int                             // groups that were made so
	kept    map[string]int                  // tasks of upkeep that were done, by kind
	trees   bool                            // it has more snapshots than others
	holes   bool                            // and more blocks that are trimmed
	dense   map[disk.GroupID]tiering.Period // groups that packing was of no use for
	without []string                        // kinds of tasks that scans of this world do not give
}

// content is a vDisk as it should be. A sector holds one tag, over and over.
type content struct {
	name     string
	size     int64
	snapshot bool
	volume   *Volume
	sectors  []sectorModel
}

type sectorModel struct {
	may   []uint64 // tags that it may hold now; one if it is known
	since []uint64 // tags that a power cut may leave: all since the last flush
}

// A bay has a disk.
type bay struct {
	id   cluster.DiskID
	fs   *disktest.FS
	disk *disk.Disk
	down bool
	seen bool // by the space, since it was opened
}

// A fuse blows after some operations: from then on the front is dead and nothing that it does has an effect.
type fuse struct {
	mu    sync.Mutex
	left  int // 0: never
	blown bool
}

var errDead = errors.New("the front is dead")

func (f *fuse) burn() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left > 0 {
		if f.left--; f.left == 0 {
			f.blown = true
		}
	}
	if f.blown {
		return errDead
	}
	return nil
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), store: mem.New(), hurt: map[cluster.DiskID]bool{}, disks: map[string]*content{}, kept: map[string]int{}, dense: map[disk.GroupID]tiering.Period{}}
	for i := range 5 {
		b := &bay{id: cluster.DiskID(fmt.Sprintf("d%d", i))}
		w.bays = append(w.bays, b)
		w.format(b)
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
}

func (w *world) format(b *bay) {
	b.fs = disktest.New(1<<30, "d")
	id := disk.Identity{Cluster: "c", Disk: string(b.id), Tier: disk.SSD, Quota: 256 << 20, Log: disk.DefaultLog(8 << 20), Salt: w.rng.Uint64() | 1}
	if err := disk.Format(b.fs, "d", id); err != nil {
		panic(err)
	}
	w.openDisk(b)
}

func (w *world) openDisk(b *bay) {
	d, err := disk.Open(b.fs, "d", disk.Options{Cluster: "c"})
	if err != nil {
		panic(err)
	}
	b.disk, b.seen = d, false
}

// boot starts a front.
func (w *world) boot() error {
	w.writer++
	w.fuse = &fuse{}
	m, err := maps.Open(context.Background(), fusedStore{w.store, w.fuse}, kv.NewWriter(w.writer))
	if err != nil {
		return err
	}
	w.maps = m
	w.space = NewSpace(m, &pool{w, w.fuse}, Options{Answer: time.Second, Patience: 10 * time.Millisecond, Lease: time.Hour})
	for _, id := range w.gone {
		if err := w.lost(id); err != nil {
			return err
		}
	}
	return nil
}

// lost gives a disk up, as far as other replicas can be reached.
func (w *world) lost(id cluster.DiskID) error {
	_, err := w.space.Lost(context.Background(), id)
	return err
}

// kill ends the front. Volumes are opened again when they are next used.
func (w *world) kill() error {
	w.note("kill the front")
	w.fuse.mu.Lock()
	w.fuse.blown = true
	w.fuse.mu.Unlock()
	for _, c := range w.disks {
		if c.volume != nil {
			c.volume.stop()
			c.volume = nil
		}
	}
	return w.boot()
}

func (w *world) end() {
	for _, c := range w.disks {
		if c.volume != nil {
			c.volume.stop()
		}
	}
	for _, b := range w.bays {
		b.disk.Close()
	}
}

// A pool of the world's disks, for one front.
type pool struct {
	w    *world
	fuse *fuse
}

func (p *pool) bay(id cluster.DiskID) *bay {
	for _, b := range p.w.bays {
		if b.id == id {
			return b
		}
	}
	return nil
}

func (p *pool) Disk(id cluster.DiskID) (Disk, error) {
	b := p.bay(id)
	if b == nil || b.down {
		return nil, fmt.Errorf("disk %s is away", id)
	}
	return plug{b.disk, p.fuse}, nil
}

func (p *pool) Place(have []cluster.DiskID, n int) (chosen []cluster.DiskID) {
	for _, i := range p.w.rng.Perm(len(p.w.bays)) {
		if b := p.w.bays[i]; len(chosen) < n && !b.down && !slices.Contains(have, b.id) {
			chosen = append(chosen, b.id)
		}
	}
	return chosen
}

func (w *world) run() error {
	if err := w.boot(); err != nil {
		return err
	}
	if err := w.create(); err != nil {
		return err
	}
	for range 60 + w.rng.IntN(60) {
		if err := w.step(); err != nil {
			return err
		}
	}
	w.note("check all")
	w.fuse.mu.Lock()
	w.fuse.left = 0
	w.fuse.mu.Unlock()
	if err := w.heal(); err != nil {
		return err
	}
	for _, name := range w.sorted() {
		if err := w.read(w.disks[name], 0, w.disks[name].size); err != nil {
			return err
		}
	}
	return w.settled()
}

func (w *world) sorted() (names []string) {
	for name := range w.disks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w *world) any() *content {
	names := w.sorted()
	return w.disks[names[w.rng.IntN(len(names))]]
}

// step does one thing. A request during which the fuse blew has an unknown outcome.
func (w *world) step() error {
	if w.rng.IntN(12) == 0 {
		w.fuse.mu.Lock()
		w.fuse.left = 1 + w.rng.IntN(25)
		w.fuse.mu.Unlock()
	}
	err := w.request()
	w.fuse.mu.Lock()
	blown := w.fuse.blown
	w.fuse.mu.Unlock()
	if blown {
		return w.kill()
	}
	return err
}

func (w *world) request() error {
	c := w.any()
	switch {
	case w.trees && w.rng.IntN(3) == 0:
		return w.grow(c)
	case w.holes && w.rng.IntN(4) == 0:
		return w.punch(c)
	}
	switch n := w.rng.IntN(124); {
	case n < 40:
		return w.write(c)
	case n < 60:
		offset, length := w.part(c)
		return w.read(c, offset, length)
	case n < 67:
		return w.flush(c)
	case n < 72:
		return w.zero(c)
	case n < 75:
		return w.snapshot(c)
	case n < 77:
		return w.clone(c)
	case n < 79:
		return w.remove(c)
	case n < 81:
		return w.resize(c)
	case n < 83:
		return w.close(c)
	case n < 85:
		return w.kill()
	case n < 87:
		return w.cut()
	case n < 94:
		return w.harm()
	case n < 95:
		return w.create()
	case n < 100:
		return w.heal()
	case n < 106:
		return w.move()
	case n < 116:
		return w.pack()
	case n < 118:
		return w.rot()
	}
	return w.upkeep()
}

// punch trims a block, or a few.
func (w *world) punch(c *content) error {
	if c.snapshot {
		return nil
	}
	first := w.rng.Int64N(blocksOf(c.size)) * disk.BlockSize
	return w.trim(c, first, min(c.size-first, (1+w.rng.Int64N(3))*disk.BlockSize), false, false)
}

// grow makes trees of snapshots, and cuts them.
func (w *world) grow(c *content) error {
	switch w.rng.IntN(8) {
	case 0, 1:
		return w.snapshot(c)
	case 2:
		return w.clone(c)
	case 3, 4:
		if c.snapshot || w.rng.IntN(4) == 0 {
			return w.remove(c)
		}
		return nil
	}
	return w.upkeep(upkeep.VDisks, upkeep.Piles)
}

func (w *world) create() error {
	if len(w.disks) > 5 {
		return nil
	}
	w.names++
	c := &content{name: fmt.Sprintf("v%d", w.names), size: int64(1+w.rng.IntN(10<<20/sector)) * sector}
	w.note("create %s of %d", c.name, c.size)
	_, err := w.space.Create(context.Background(), c.name, c.size, 3, time.Unix(0, 0))
	if err != nil {
		if _, there := w.find(c.name); !there {
			return w.unlessDead(err)
		}
	}
	c.sectors = make([]sectorModel, c.size/sector)
	for i := range c.sectors {
		c.sectors[i] = known(0)
	}
	w.disks[c.name] = c
	return nil
}

// find looks a name up as the next front will.
func (w *world) find(name string) (maps.VDisk, bool) {
	m, err := maps.Open(context.Background(), w.store, kv.NewWriter(0))
	if err != nil {
		panic(err)
	}
	v, err := m.Find(context.Background(), name)
	return v, err == nil
}

func (w *world) unlessDead(err error) error {
	w.fuse.mu.Lock()
	defer w.fuse.mu.Unlock()
	if w.fuse.blown {
		return nil
	}
	return err
}

func known(tag uint64) sectorModel { return sectorModel{[]uint64{tag}, []uint64{tag}} }

func (w *world) open(c *content) error {
	if c.volume != nil {
		return nil
	}
	v, err := w.maps.Find(context.Background(), c.name)
	if err != nil {
		return err
	}
	c.volume, err = w.space.Open(context.Background(), v.ID)
	return err
}

func (w *world) part(c *content) (offset, length int64) {
	n := int64(len(c.sectors))
	first := w.rng.Int64N(n)
	most := []int64{1, 16, 256, 4096}[w.rng.IntN(4)]
	return first * sector, min(n-first, 1+w.rng.Int64N(most)) * sector
}

func (w *world) write(c *content) error {
	if c.snapshot {
		return nil
	}
	offset, length := w.part(c)
	w.next++
	fua := w.rng.IntN(8) == 0
	w.note("write %s %d+%d tag %d fua %t", c.name, offset, length, w.next, fua)
	if err := w.open(c); err != nil {
		return w.unlessDead(err)
	}
	data := make([]byte, length)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], w.next)
	}
	err := c.volume.WriteAt(context.Background(), data, offset, fua)
	c.put(offset, length, w.next, err, fua)
	return w.unlessDead(err)
}

// put is a write of a tag to the model.
func (c *content) put(offset, length int64, tag uint64, err error, fua bool) {
	for i := offset / sector; i < (offset+length)/sector; i++ {
		s := &c.sectors[i]
		switch {
		case err != nil:
			s.may = append(s.may, tag)
		default:
			s.may = []uint64{tag}
		}
		if s.since = append(s.since, tag); err == nil && fua {
			s.since = []uint64{tag}
		}
	}
}

func (w *world) zero(c *content) error {
	if c.snapshot {
		return nil
	}
	offset, length := w.part(c)
	if w.rng.IntN(2) == 0 { // whole blocks
		offset = offset / disk.BlockSize * disk.BlockSize
		length = min(c.size-offset, (length/disk.BlockSize+1)*disk.BlockSize)
	}
	return w.trim(c, offset, length, w.rng.IntN(2) == 0, w.rng.IntN(8) == 0)
}

func (w *world) trim(c *content, offset, length int64, noHole, fua bool) error {
	w.note("zero %s %d+%d keep %t fua %t", c.name, offset, length, noHole, fua)
	if err := w.open(c); err != nil {
		return w.unlessDead(err)
	}
	err := c.volume.Zero(context.Background(), offset, length, noHole, fua)
	c.put(offset, length, 0, err, fua)
	return w.unlessDead(err)
}

func (w *world) read(c *content, offset, length int64) error {
	w.note("read %s %d+%d", c.name, offset, length)
	if err := w.open(c); err != nil {
		return w.unlessDead(err)
	}
	data := make([]byte, length)
	if err := c.volume.ReadAt(context.Background(), data, offset); err != nil {
		return w.unlessDead(fmt.Errorf("read %s: %w", c.name, err))
	}
	for i := int64(0); i < length; i += sector {
		tag := binary.LittleEndian.Uint64(data[i:])
		for j := int64(8); j < sector; j += 8 {
			if binary.LittleEndian.Uint64(data[i+j:]) != tag {
				return fmt.Errorf("%s at %d: a sector of several writes", c.name, offset+i)
			}
		}
		s := &c.sectors[(offset+i)/sector]
		if !slices.Contains(s.may, tag) {
			return fmt.Errorf("%s at %d has tag %d, may have %v, since the last flush %v", c.name, offset+i, tag, s.may, s.since)
		}
		s.may = []uint64{tag}
	}
	return nil
}

func (w *world) flush(c *content) error {
	if c.snapshot {
		return nil
	}
	w.note("flush %s", c.name)
	if err := w.open(c); err != nil {
		return w.unlessDead(err)
	}
	if err := c.volume.Flush(context.Background()); err != nil {
		return w.unlessDead(err)
	}
	c.flushed()
	return nil
}

func (c *content) flushed() {
	for i := range c.sectors {
		c.sectors[i].since = slices.Clone(c.sectors[i].may)
	}
}

func (w *world) snapshot(c *content) error {
	if c.snapshot || len(w.disks) > 8 {
		return nil
	}
	w.names++
	name := fmt.Sprintf("s%d", w.names)
	w.note("snapshot %s as %s", c.name, name)
	if err := w.open(c); err != nil {
		return w.unlessDead(err)
	}
	err := c.volume.Snapshot(context.Background(), name, time.Unix(0, 0))
	if _, there := w.find(name); err != nil && !there {
		return w.unlessDead(err)
	}
	c.flushed()
	w.disks[name] = &content{name: name, size: c.size, snapshot: true, sectors: c.copied()}
	return w.unlessDead(err)
}

// copied gives the sectors for another vDisk. A sector of which it is not known what it holds may
// be read in the one and then in the other: both hold the same.
func (c *content) copied() []sectorModel {
	all := make([]sectorModel, len(c.sectors))
	for i, s := range c.sectors {
		all[i] = sectorModel{slices.Clone(s.may), slices.Clone(s.since)}
	}
	return all
}

func (w *world) clone(c *content) error {
	if !c.snapshot || len(w.disks) > 8 {
		return nil
	}
	w.names++
	name := fmt.Sprintf("v%d", w.names)
	w.note("clone %s as %s", c.name, name)
	_, err := w.space.Clone(context.Background(), c.name, name, time.Unix(0, 0))
	if _, there := w.find(name); err != nil && !there {
		return w.unlessDead(err)
	}
	w.disks[name] = &content{name: name, size: c.size, sectors: c.copied()}
	return w.unlessDead(err)
}

func (w *world) remove(c *content) error {
	if len(w.disks) < 2 {
		return nil
	}
	w.note("remove %s", c.name)
	if c.volume != nil {
		if err := w.space.Remove(context.Background(), c.name); !errors.Is(err, ErrInUse) {
			return w.unlessDead(fmt.Errorf("remove what is open: %w", err))
		}
		err := c.volume.Close()
		c.volume = nil
		if err != nil {
			return w.unlessDead(err)
		}
		c.flushed()
	}
	err := w.space.Remove(context.Background(), c.name)
	if _, there := w.find(c.name); !there {
		delete(w.disks, c.name)
	}
	if err != nil {
		return w.unlessDead(err)
	}
	return w.unlessDead(w.space.Reap(context.Background()))
}

func (w *world) resize(c *content) error {
	if c.snapshot {
		return nil
	}
	size := int64(1+w.rng.IntN(10<<20/sector)) * sector
	w.note("resize %s from %d to %d", c.name, c.size, size)
	if err := w.open(c); err != nil {
		return w.unlessDead(err)
	}
	err := c.volume.Resize(context.Background(), size)
	if v, there := w.find(c.name); !there || v.Size != size {
		return w.unlessDead(err)
	}
	for int64(len(c.sectors)) < size/sector {
		c.sectors = append(c.sectors, known(0))
	}
	c.sectors, c.size = c.sectors[:size/sector], size
	return w.unlessDead(err)
}

func (w *world) close(c *content) error {
	if c.volume == nil {
		return nil
	}
	w.note("close %s", c.name)
	err := c.volume.Close()
	c.volume = nil
	if err != nil {
		return w.unlessDead(err)
	}
	if !c.snapshot {
		c.flushed()
	}
	return nil
}

// cut cuts the power of all machines.
func (w *world) cut() error {
	w.note("cut the power")
	if err := w.kill(); err != nil {
		return err
	}
	for _, b := range w.bays {
		w.reopen(b, true)
	}
	for _, c := range w.disks {
		for i := range c.sectors {
			s := &c.sectors[i]
			s.may = slices.Clone(s.since)
		}
	}
	return nil
}

// reopen starts a disk's server again after a kill or a power cut.
func (w *world) reopen(b *bay, cut bool) {
	old := b.disk
	if cut {
		b.fs = b.fs.Cut(w.rng, w.rng.IntN(101))
	} else {
		b.fs = b.fs.Kill()
	}
	old.Close()
	w.openDisk(b)
}

// harm does something to a disk, so that at most two of them lack replicas.
func (w *world) harm() error {
	b := w.bays[w.rng.IntN(len(w.bays))]
	if !w.hurt[b.id] && len(w.hurt) == 2 {
		return nil
	}
	w.hurt[b.id] = true
	switch w.rng.IntN(5) {
	case 0:
		w.note("%s goes away", b.id)
		b.down = true
	case 1:
		w.note("%s comes back", b.id)
		b.down = false
	case 2, 3:
		cut := w.rng.IntN(2) == 0
		w.note("%s is opened again, power cut %t", b.id, cut)
		w.reopen(b, cut)
		return w.unlessDead(w.space.Reopened(context.Background(), b.id))
	case 4:
		old := b.id
		b.disk.Close()
		delete(w.hurt, old)
		w.names++
		b.id, b.down = cluster.DiskID(fmt.Sprintf("d%d", w.names+100)), false
		w.note("%s is wiped, and is %s now", old, b.id)
		w.hurt[b.id] = true
		w.format(b)
		w.gone = append(w.gone, old)
		return w.unlessDead(w.lost(old))
	}
	return nil
}

// heal brings all disks back and rebuilds what is missing.
func (w *world) heal() error {
	w.note("heal")
	for _, b := range w.bays {
		b.down = false
	}
	for _, id := range w.gone {
		kept, err := w.space.Lost(context.Background(), id)
		if len(kept) > 0 && err == nil {
			err = fmt.Errorf("%s had the last replica of %v", id, kept)
		}
		if err != nil {
			return w.unlessDead(err)
		}
	}
	if err := w.mend(); err != nil {
		return w.unlessDead(err)
	}
	degraded := true
	for degraded {
		degraded = false
		for g, err := range w.maps.Groups(context.Background()) {
			if err != nil {
				return w.unlessDead(err)
			}
			if s := g.State(); s == group.Whole || s == group.Dead {
				continue
			}
			degraded = true
			if err := w.space.Rebuild(context.Background(), g.ID, ""); err != nil {
				return w.unlessDead(fmt.Errorf("rebuild: %w", err))
			}
		}
	}
	for _, b := range w.bays {
		if _, err := w.space.Sweep(context.Background(), b.id); err != nil {
			return w.unlessDead(err)
		}
	}
	clear(w.hurt)
	return nil
}

// move moves replicas of some groups to other disks, chosen by chance.
func (w *world) move() error {
	ctx := context.Background()
	for g, err := range w.maps.Groups(ctx) {
		if err != nil {
			return w.unlessDead(err)
		}
		if len(g.Good) == 0 || w.rng.IntN(2) == 0 {
			continue
		}
		from := g.Good[w.rng.IntN(len(g.Good))]
		var to cluster.DiskID
		err := w.space.Move(ctx, g.ID, from, func(others []cluster.DiskID) (cluster.DiskID, bool) {
			chosen := (&pool{w, w.fuse}).Place(append(others, from), 1)
			if len(chosen) == 0 {
				return "", false
			}
			to = chosen[0]
			return to, true
		})
		w.note("move group %s from %s to %s: %v", g.ID, from, to, err)
		switch {
		case err == nil:
			w.moved++
			if rec, _, err := w.maps.Group(ctx, g.ID); err != nil || slices.Contains(rec.Good, from) || !slices.Contains(rec.Good, to) || rec.State() != group.Whole {
				return w.unlessDead(fmt.Errorf("group %s was moved from %s to %s and is %+v, %v", g.ID, from, to, rec, err))
			}
		case !errors.Is(err, ErrMoot) && !errors.Is(err, ErrNoTarget) && len(w.hurt) == 0:
			return w.unlessDead(err)
		}
	}
	return nil
}

// pack packs some groups of a vDisk together.
func (w *world) pack() error {
	ctx, of := context.Background(), map[disk.VDiskID][]disk.GroupID{}
	for g, err := range w.maps.Groups(ctx) {
		if err != nil {
			return w.unlessDead(err)
		}
		if !g.Dead && len(of[g.VDisk]) < MaxPacked && w.rng.IntN(3) > 0 {
			of[g.VDisk] = append(of[g.VDisk], g.ID)
		}
	}
	if w.rng.IntN(3) == 0 {
		return w.dedup()
	}
	for _, v := range slices.Sorted(gomaps.Keys(of)) {
		form := Form{Level: pack.Level(1 + w.rng.IntN(2)), Data: []int{0, 2, 3}[w.rng.IntN(3)]}
		saving, err := w.space.Pack(ctx, of[v], form)
		w.note("pack groups %v: %+v, %v", of[v], saving, err)
		switch {
		case err == nil:
			w.packed += len(of[v])
			if form.Data > 0 {
				w.coded++
			}
		case !errors.Is(err, ErrMoot) && !errors.Is(err, ErrNoTarget) && len(w.hurt) == 0:
			return w.unlessDead(err)
		}
	}
	return nil
}

// dedup has equal extents share their bytes.
func (w *world) dedup() error {
	pairs, err := duplicates(w.maps)
	for _, p := range pairs {
		err := w.space.Dedup(context.Background(), p.keep, p.gone)
		w.note("share %s with %s: %v", p.keep, p.gone, err)
		switch {
		case err == nil:
			w.shared++
		case !errors.Is(err, ErrMoot) && len(w.hurt) == 0:
			return w.unlessDead(err)
		}
	}
	return w.unlessDead(err)
}

// rot flips a bit of what a disk has of packed groups.
func (w *world) rot() error {
	b := w.bays[w.rng.IntN(len(w.bays))]
	if !w.hurt[b.id] && len(w.hurt) == 2 {
		return nil
	}
	for g, err := range w.maps.Groups(context.Background()) {
		const slicesStart = 12 << 10 // docs/formats/fabric-disk.md
		if err != nil {
			return w.unlessDead(err)
		}
		name := "d/groups/" + g.ID.String()
		if !g.Packed() || g.Dead || !slices.Contains(g.Good, b.id) || b.fs.Size(name) <= slicesStart {
			continue
		}
		w.hurt[b.id] = true
		bit := slicesStart*8 + w.rng.Int64N((b.fs.Size(name)-slicesStart)*8)
		w.note("bit %d of group %s rots on %s", bit, g.ID, b.id)
		b.fs.Flip(name, bit)
	}
	return nil
}

// mend gives up what rotted.
func (w *world) mend() error {
	ctx := context.Background()
	for g, err := range w.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		for _, id := range g.Good {
			b := (&pool{w, w.fuse}).bay(id)
			if b == nil || !g.Packed() || g.Dead {
				continue
			}
			bad, err := b.disk.Verify(g.ID)
			if err != nil && !errors.Is(err, disk.ErrNotFound) {
				return err
			}
			if len(bad) == 0 {
				continue
			}
			if err := w.space.Discard(ctx, g.ID, id); err != nil {
				return fmt.Errorf("discard: %w", err)
			}
		}
	}
	return nil
}

// settled checks, after all volumes are closed, that replicas are equal and that no record leads nowhere.
func (w *world) settled() error {
	for _, name := range w.sorted() {
		if c := w.disks[name]; c.volume != nil {
			if err := w.close(c); err != nil {
				return err
			}
		}
	}
	if err := w.tidied(); err != nil {
		return err
	}
	ctx := context.Background()
	for v, err := range w.maps.VDisks(ctx) {
		if err != nil {
			return err
		}
		for next := int64(0); next < blocksOf(v.Size); {
			next, err = w.maps.Blocks(ctx, v.ID, next, blocksOf(v.Size), func(block int64, b maps.Block, _ kv.Version) error {
				for _, e := range b.Pile {
					at, _, err := w.maps.Extent(ctx, e)
					if err != nil {
						return err
					}
					g, _, err := w.maps.Group(ctx, at.Group)
					if err != nil {
						return err
					}
					if at.Packed != nil && !slices.Contains(g.Tenants, e) {
						return fmt.Errorf("extent %s is in group %s, which does not know of it", e, at.Group)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	known := map[disk.GroupID]maps.NumberedGroup{}
	for g, err := range w.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		known[g.ID] = g
		if _, marked, err := w.maps.Marked(ctx, g.VDisk, g.ID); err != nil || marked || g.Dead {
			continue // left by a front that died while it made or removed the group
		}
		if err := w.equal(g); err != nil {
			return err
		}
	}
	for _, b := range w.bays {
		if _, err := w.space.Sweep(ctx, b.id); err != nil {
			return err
		}
		err := b.disk.List(func(id disk.GroupID) error {
			g, ok := known[id]
			info, err := b.disk.Stat(id)
			if _, marked, _ := w.maps.Marked(ctx, info.VDisk, id); err != nil || ok && slices.Contains(g.Good, b.id) || !ok && marked {
				return nil
			}
			return fmt.Errorf("%s has a replica of group %s, which is on %v", b.id, id, g.Good)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) equal(g maps.NumberedGroup) error {
	if g.Coded() {
		return w.parity(g)
	}
	var first []disk.Sum
	for _, id := range g.Good {
		d := (&pool{w, w.fuse}).bay(id)
		if d == nil {
			return fmt.Errorf("group %s is on disk %s, which is gone", g.ID, id)
		}
		_ = d.disk.Raise(g.ID, g.Generation) // a front may have died before it did
		sums, err := d.disk.Sums(g.ID, g.Generation)
		if err != nil {
			return fmt.Errorf("group %s on %s: %w", g.ID, id, err)
		}
		if first == nil {
			first = sums
		} else if !slices.Equal(first, sums) {
			return fmt.Errorf("group %s differs on %v", g.ID, g.Good)
		}
	}
	return nil
}

// parity checks that the shards of a group are those of one image.
func (w *world) parity(g maps.NumberedGroup) error {
	have := make([][]byte, g.Wanted)
	for i, id := range g.Good {
		d := (&pool{w, w.fuse}).bay(id)
		if d == nil {
			return fmt.Errorf("group %s is on disk %s, which is gone", g.ID, id)
		}
		_ = d.disk.Raise(g.ID, g.Generation) // a front may have died before it did
		have[g.Shards[i]] = make([]byte, g.Length)
		if err := d.disk.Read(g.ID, g.Generation, 0, have[g.Shards[i]]); err != nil {
			return fmt.Errorf("group %s on %s: %w", g.ID, id, err)
		}
	}
	want, err := pack.Cut(slices.Concat(have[:g.Data]...), g.Data, g.Wanted-g.Data, g.Length)
	for i := range want {
		if !slices.Equal(want[i], have[i]) {
			return fmt.Errorf("shard %d of group %s does not fit the others", i, g.ID)
		}
	}
	return err
}

// A plug is a disk that a dead front cannot use.
type plug struct {
	d    *disk.Disk
	fuse *fuse
}

func (p plug) Identity(context.Context) (disk.Identity, error) { return p.d.Identity(), p.fuse.burn() }
func (p plug) Read(_ context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Read(id, generation, offset, buf) })
}
func (p plug) Write(_ context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Write(id, generation, token, offset, data, sync) })
}
func (p plug) Written(_ context.Context, id disk.GroupID, generation uint64) (m disk.Mask, err error) {
	err = cmpOr(p.fuse.burn(), func() (err error) { m, err = p.d.Written(id, generation); return err })
	return m, err
}
func (p plug) Sums(_ context.Context, id disk.GroupID, generation uint64) (sums []disk.Sum, err error) {
	err = cmpOr(p.fuse.burn(), func() (err error) { sums, err = p.d.Sums(id, generation); return err })
	return sums, err
}
func (p plug) Salvage(_ context.Context, id disk.GroupID, generation uint64, slice int, buf []byte) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Salvage(id, generation, slice, buf) })
}
func (p plug) Create(_ context.Context, id disk.GroupID, v disk.VDiskID, generation uint64) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Create(id, v, generation) })
}
func (p plug) Raise(_ context.Context, id disk.GroupID, generation uint64) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Raise(id, generation) })
}
func (p plug) Truncate(_ context.Context, id disk.GroupID, generation uint64, blocks int) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Truncate(id, generation, blocks) })
}
func (p plug) Remove(_ context.Context, id disk.GroupID, generation uint64) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Remove(id, generation) })
}
func (p plug) Fence(_ context.Context, v disk.VDiskID, token uint64) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.Fence(v, token) })
}
func (p plug) Stat(_ context.Context, id disk.GroupID) (info disk.Info, err error) {
	err = cmpOr(p.fuse.burn(), func() (err error) { info, err = p.d.Stat(id); return err })
	return info, err
}
func (p plug) List(_ context.Context, visit func(disk.GroupID) error) error {
	return cmpOr(p.fuse.burn(), func() error { return p.d.List(visit) })
}
func (p plug) Sync(context.Context) error { return cmpOr(p.fuse.burn(), p.d.Sync) }

func cmpOr(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

// fusedStore is a store that a dead front cannot change.
type fusedStore struct {
	kv.Store
	fuse *fuse
}

func (s fusedStore) Table(ctx context.Context, name string) (kv.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return fusedTable{t, s.fuse}, err
}

type fusedTable struct {
	kv.Table
	fuse *fuse
}

func (t fusedTable) CompareAndSet(ctx context.Context, key kv.Key, old, next kv.Version, value []byte) error {
	return cmpOr(t.fuse.burn(), func() error { return t.Table.CompareAndSet(ctx, key, old, next, value) })
}
func (t fusedTable) CompareAndDelete(ctx context.Context, key kv.Key, old kv.Version) error {
	return cmpOr(t.fuse.burn(), func() error { return t.Table.CompareAndDelete(ctx, key, old) })
}
func (t fusedTable) Apply(ctx context.Context, part []byte, next kv.Version, changes ...kv.Change) error {
	return cmpOr(t.fuse.burn(), func() error { return t.Table.Apply(ctx, part, next, changes...) })
}
