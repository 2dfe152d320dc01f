package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/hands"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// A liveGroup is a group as this process knows it.
type liveGroup struct {
	id    disk.GroupID
	space *Space
	pins  int           // of the space's lock
	vdisk atomic.Uint64 // that it is of; 0 if not known
	stale atomic.Bool   // what is known of it may be old
	doubt bool          // a change of its record failed: it may have been made, or come later

	mu      sync.RWMutex // held for reading by requests, for writing by changes of the replicas
	loaded  bool
	rec     group.Group
	version kv.Version
	// unsure: replicas may differ, so none may be read before reconcile. token is the writer's who is to do that.
	unsure bool
	token  uint64
	marked bool                       // in the maps, so it may be written
	parted bool                       // volumes may not know yet which extents have left it
	left   [maps.ExtentsPerGroup]bool // of a marked group: extents that are elsewhere now, and may not be written here
	fresh  bool                       // made and never synced: a disk may lack it after a power cut
	opened map[cluster.DiskID]uint64  // as the mark says
	mark   kv.Version                 // of the mark, as far as is known

	readIn    [maps.ExtentsPerGroup]atomic.Uint32 // the period of the last read of each block that was noted
	writtenIn atomic.Uint32                       // and of the last write
	lastWrite atomic.Int64                        // when it was, in nanoseconds

	written sync.Mutex
	mask    *disk.Mask // slices that were ever written; nil if not known
	changes uint64     // of what the mask says, or would say if it were known
}

// lockReady takes the group's lock for reading, with the record loaded and the replicas equal, and marked if a volume
// is to write to it.
func (g *liveGroup) lockReady(ctx context.Context, writer *Volume) error {
	for {
		g.mu.RLock()
		if g.loaded && !g.rec.Dead && !g.stale.Load() && !g.doubt && !g.unsure && (g.marked || writer == nil) {
			return nil
		}
		dead := g.loaded && g.rec.Dead
		g.mu.RUnlock()
		if dead { // its extents are elsewhere
			return fmt.Errorf("fabric: group %s is dead: %w", g.id, maps.ErrNotFound)
		}
		if err := g.prepare(ctx, writer); err != nil {
			return err
		}
	}
}

func (g *liveGroup) prepare(ctx context.Context, writer *Volume) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refresh(ctx); err != nil {
		return err
	}
	if g.doubt && !g.rec.Dead { // another change makes it sure, and the failed one cannot come any more
		if err := g.change(ctx, group.Group.Renew); err != nil {
			return err
		}
		g.raise()
	}
	if g.unsure {
		if err := g.reconcile(ctx); err != nil { // by what the mark says that is there
			return err
		}
	}
	if writer != nil && !g.marked && !g.rec.Dead {
		if g.parted {
			if err := g.findLeft(ctx); err != nil {
				return err
			}
		}
		if g.rec.Building != "" { // by another, who stands still or is dead: what is written now would not be in it
			if err := g.giveUp(ctx); err != nil {
				return err
			}
		}
		return writer.mark(ctx, g, g.rec.Good)
	}
	return nil
}

// load reads the record. The group is locked.
func (g *liveGroup) load(ctx context.Context) error {
	rec, version, err := g.space.maps.Group(ctx, g.id)
	if err != nil {
		return err
	}
	g.rec, g.version, g.loaded = rec, version, true
	g.vdisk.Store(uint64(rec.VDisk))
	return nil
}

// change writes what decide makes of the record, and reads it again where another changed it. The group is locked.
func (g *liveGroup) change(ctx context.Context, decide func(group.Group) (group.Group, error)) error {
	for {
		next, err := decide(g.rec)
		if err != nil {
			return err
		}
		version, err := g.space.maps.SetGroup(ctx, g.id, next, g.version)
		if errors.Is(err, maps.ErrChanged) {
			if err := g.load(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			g.loaded, g.doubt = false, true // what stands there is not known
			return err
		}
		g.rec, g.version, g.doubt = next, version, false
		return nil
	}
}

// each calls do for every disk at once and gives the errors in their order.
func (g *liveGroup) each(disks []cluster.DiskID, do func(context.Context, Disk) error) []error {
	ctx := g.space.term()
	errs := make([]error, len(disks))
	together(len(disks), func(i int) {
		d, err := g.space.pool.Disk(disks[i])
		if err == nil {
			err = do(ctx, d)
		}
		errs[i] = err
	})
	return errs
}

// askAll asks disks for the same at once, and gives the errors in their order. What can be begun is waited for here, once all the rest is done: waking
// a goroutine for each of three answers costs more than sending three small writes. The others are asked by do.
func (s *Space) askAll(disks []cluster.DiskID, begin func(Beginner) func() error, do func(Disk) error) []error {
	errs, waits := make([]error, len(disks)), make([]func() error, len(disks))
	var others []int
	for i, id := range disks {
		d, err := s.pool.Disk(id)
		if err != nil {
			errs[i] = err
			continue
		}
		if b, ok := d.(Beginner); ok {
			waits[i] = begin(b)
		}
		if waits[i] == nil {
			others = append(others, i)
		}
	}
	together(len(others), func(k int) {
		i := others[k]
		d, err := s.pool.Disk(disks[i])
		if err == nil {
			err = do(d)
		}
		errs[i] = err
	})
	for i, wait := range waits {
		if wait != nil {
			errs[i] = wait()
		}
	}
	return errs
}

// together does n things at once, one of them here, and returns when all are done.
func together(n int, do func(i int)) {
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		others.Add(1)
		helpers.Go(func() {
			defer others.Done()
			do(i)
		})
	}
	if n > 0 {
		do(0)
	}
	others.Wait()
}

// helpers are the goroutines that together uses, in all spaces.
var helpers = hands.New()

// write sends data to all replicas. The caller has the slices for itself.
func (g *liveGroup) write(ctx context.Context, writer *Volume, offset int64, data []byte, sync bool) error {
	pause := newBackoff(g.space.o.Patience)
	for {
		if err := g.lockReady(ctx, writer); err != nil {
			return err
		}
		if g.left[offset/disk.BlockSize] {
			g.mu.RUnlock()
			return fmt.Errorf("fabric: group %s: the extent has moved: %w", g.id, maps.ErrNotFound)
		}
		rec := g.rec
		term := g.space.term()
		errs := g.space.askAll(rec.Good, func(d Beginner) func() error {
			return d.BeginWrite(term, g.id, rec.Generation, writer.token, offset, data, sync)
		}, func(d Disk) error {
			return d.Write(term, g.id, rec.Generation, writer.token, offset, data, sync)
		})
		if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			g.note(offset, len(data))
			g.lastWrite.Store(time.Now().UnixNano())
			g.used(&g.writtenIn, tiering.WrittenIn, tiering.WrittenIn)
			writer.soil(g)
			g.mu.RUnlock()
			return nil
		}
		g.mu.RUnlock()
		if err := g.failed(ctx, rec, writer, errs, pause); err != nil {
			return err
		}
	}
}

// failed decides what becomes of a write that some replicas did not take. It returns nil if the write is to be tried again.
func (g *liveGroup) failed(ctx context.Context, rec group.Group, writer *Volume, errs []error, pause *backoff) error {
	g.forgetMask()
	stale, full, bad := 0, 0, []cluster.DiskID(nil)
	for i, err := range errs {
		var fence *disk.FenceError
		var generation *disk.GenerationError
		switch {
		case err == nil:
			continue
		case errors.As(err, &fence):
			return fmt.Errorf("%w: %w", ErrFenced, err)
		case errors.As(err, &generation):
			stale++
			continue
		case isFull(err):
			full++
			g.space.o.Full(rec.Good[i])
		}
		bad = append(bad, rec.Good[i])
	}
	switch {
	case full == len(errs):
		return ErrNoSpace
	case stale > 0:
		return g.align(ctx)
	case len(bad) < len(errs):
		err := g.drop(ctx, rec.Generation, bad...)
		if err == nil && full == 0 {
			writer.leave(bad)
		}
		if !errors.Is(err, group.ErrLast) {
			return err
		}
	}
	if !pause.wait(ctx) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.unsure, g.token = true, writer.token
		return fmt.Errorf("fabric: write to group %s: no replica can be reached: %w", g.id, errors.Join(errs...))
	}
	return g.renew(ctx, rec.Generation)
}

// renew refuses what is still on its way to the replicas of a generation, before the same is tried again: it could
// arrive after a later write.
func (g *liveGroup) renew(ctx context.Context, generation uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.loaded || g.rec.Generation != generation {
		return nil
	}
	if err := g.change(ctx, group.Group.Renew); err != nil {
		return err
	}
	g.raise()
	return nil
}

// align reads the record again and raises the replicas of its list to its generation.
func (g *liveGroup) align(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetMask()
	if err := g.load(ctx); err != nil {
		return err
	}
	g.raise()
	return nil
}

// raise brings the replicas to the record's generation. One that cannot be reached now says so at the next request.
func (g *liveGroup) raise() {
	g.each(g.rec.Good, func(ctx context.Context, d Disk) error { return d.Raise(ctx, g.id, g.rec.Generation) })
}

// drop takes disks off the list that failed under a generation, unless the list has changed since or the group is gone.
func (g *liveGroup) drop(ctx context.Context, generation uint64, disks ...cluster.DiskID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loaded && g.rec.Generation != generation {
		return nil
	}
	err := g.dropLocked(ctx, disks...)
	if errors.Is(err, maps.ErrNotFound) || errors.Is(err, group.ErrDead) {
		return nil
	}
	return err
}

func (g *liveGroup) dropLocked(ctx context.Context, disks ...cluster.DiskID) error {
	if !g.loaded {
		if err := g.load(ctx); err != nil {
			return err
		}
	}
	err := g.change(ctx, func(rec group.Group) (group.Group, error) {
		for _, d := range disks {
			if !slices.Contains(rec.Good, d) {
				continue
			}
			var err error
			if rec, err = rec.Drop(d); err != nil {
				return rec, err
			}
		}
		return rec, nil
	})
	if err != nil {
		return fmt.Errorf("fabric: group %s: %w", g.id, err)
	}
	g.raise()
	g.space.o.Degraded(g.id)
	return nil
}

// read fills buf from the first replica that can give it.
func (g *liveGroup) read(ctx context.Context, offset int64, buf []byte) error {
	if err := g.lockReady(ctx, nil); err != nil {
		return err
	}
	coded := g.rec.Coded()
	g.mu.RUnlock()
	if coded {
		return g.readCoded(ctx, offset, buf)
	}
	return g.ask(ctx, "read", func(ctx context.Context, d Disk, generation uint64, order []cluster.DiskID) error {
		g.used(&g.readIn[offset/disk.BlockSize], tiering.ReadOnce, tiering.ReadIn)
		if len(order) == 1 {
			return d.Read(ctx, g.id, generation, offset, buf)
		}
		return hedged(ctx, buf, func(ctx context.Context, buf []byte) error { return d.Read(ctx, g.id, generation, offset, buf) },
			func(ctx context.Context, buf []byte) error {
				g.space.shun(order[0])
				other, err := g.space.pool.Disk(order[1])
				if err != nil {
					return err
				}
				return other.Read(ctx, g.id, generation, offset, buf)
			})
	})
}

// hedge is how long a replica may take for a read before another is asked as well: longer than a
// disk takes that is not stuck.
const hedge = 30 * time.Millisecond

// hedged reads by first and, if that takes long, by second too. It returns when nothing uses buf any more.
func hedged(ctx context.Context, buf []byte, first, second func(context.Context, []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	won := make(chan []byte, 1)
	late := time.AfterFunc(hedge, func() {
		copied := make([]byte, len(buf))
		if second(ctx, copied) != nil {
			copied = nil
		} else {
			cancel() // of the first
		}
		won <- copied
	})
	err := first(ctx, buf)
	if err == nil || late.Stop() {
		late.Stop()
		return err
	}
	if copied := <-won; copied != nil {
		copy(buf, copied)
		return nil
	}
	return err
}

// shunTime is how long a disk that failed a read, or was late, is asked after the others.
const shunTime = time.Second

func (s *Space) shun(id cluster.DiskID) { s.shunned.Store(id, time.Now().Add(shunTime)) }

func (s *Space) shuns(id cluster.DiskID) bool {
	until, known := s.shunned.Load(id)
	if !known {
		return false
	}
	if time.Now().Before(until.(time.Time)) {
		return true
	}
	s.shunned.CompareAndDelete(id, until)
	return false
}

// order gives the disks in the order in which to ask them for a read.
func (s *Space) order(disks []cluster.DiskID) []cluster.DiskID {
	if !slices.ContainsFunc(disks, s.shuns) {
		return disks
	}
	var first, last []cluster.DiskID
	for _, id := range disks {
		if s.shuns(id) {
			last = append(last, id)
		} else {
			first = append(first, id)
		}
	}
	return append(first, last...)
}

// ask calls do for one replica after the other until one succeeds, with those that are left, the one to ask first.
func (g *liveGroup) ask(ctx context.Context, what string, do func(ctx context.Context, d Disk, generation uint64, order []cluster.DiskID) error) error {
	pause, aligned := newBackoff(g.space.o.Patience), false
	for {
		if err := g.lockReady(ctx, nil); err != nil {
			return err
		}
		stale, errs, damaged := false, []error(nil), []cluster.DiskID(nil)
		order := g.space.order(g.rec.Good)
		for i, id := range order {
			d, err := g.space.pool.Disk(id)
			if err == nil {
				err = do(g.space.term(), d, g.rec.Generation, order[i:])
			}
			if err == nil {
				g.mu.RUnlock()
				for _, bad := range damaged {
					g.space.o.Damaged(g.id, bad)
				}
				return nil
			}
			var generation *disk.GenerationError
			stale = stale || errors.As(err, &generation) || errors.Is(err, disk.ErrNotFound) // another may have moved it
			if isDamage(err) {
				damaged = append(damaged, id)
			}
			g.space.shun(id)
			errs = append(errs, fmt.Errorf("disk %s: %w", id, err))
		}
		g.mu.RUnlock()
		if stale {
			if err := g.align(ctx); err != nil {
				return err
			}
			if !aligned { // on a busy machine patience may be over by now
				aligned = true
				continue
			}
		}
		if err := errors.Join(errs...); !pause.wait(ctx) || rotten(errs) {
			return fmt.Errorf("fabric: %s group %s: %w", what, g.id, err)
		}
	}
}

// isDamage says that a disk has lost a replica, or a part of it.
func isDamage(err error) bool {
	var slice *disk.SliceError
	return errors.As(err, &slice) || errors.Is(err, disk.ErrNotFound)
}

// rotten says that waiting will not help: every replica was reached and cannot be trusted.
func rotten(errs []error) bool {
	for _, err := range errs {
		var slice *disk.SliceError
		if !errors.As(err, &slice) {
			return false
		}
	}
	return true
}

func (g *liveGroup) askOne(ctx context.Context, id cluster.DiskID, do func(context.Context, Disk, uint64) error) error {
	d, err := g.space.pool.Disk(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.space.o.Answer)
	defer cancel()
	return do(ctx, d, g.rec.Generation)
}

// has gives which slices of the group were ever written.
func (g *liveGroup) has(ctx context.Context) (disk.Mask, error) {
	g.written.Lock()
	if g.mask != nil && !g.stale.Load() {
		defer g.written.Unlock()
		return *g.mask, nil
	}
	before := g.changes
	g.written.Unlock()
	var mask disk.Mask
	err := g.ask(ctx, "ask about", func(ctx context.Context, d Disk, generation uint64, _ []cluster.DiskID) (err error) {
		mask, err = d.Written(ctx, g.id, generation)
		return err
	})
	if err != nil {
		return mask, err
	}
	g.written.Lock()
	defer g.written.Unlock()
	if g.mask == nil && g.changes == before { // else it may lack a slice that was written since; the caller has its own slices for itself
		g.mask = &mask
	}
	return mask, nil
}

// changesSoFar counts the writes to the group, and what may have been some.
func (g *liveGroup) changesSoFar() uint64 {
	g.written.Lock()
	defer g.written.Unlock()
	return g.changes
}

// note remembers that slices were written.
func (g *liveGroup) note(offset int64, n int) {
	g.written.Lock()
	defer g.written.Unlock()
	g.changes++
	if g.mask == nil {
		return
	}
	for slice := offset / disk.SliceSize; slice*disk.SliceSize < offset+int64(n); slice++ {
		g.mask.Add(int(slice))
	}
}

func (g *liveGroup) forgetMask() {
	g.written.Lock()
	defer g.written.Unlock()
	g.changes++
	g.mask = nil
}

// A backoff waits longer each time, until its patience is over.
type backoff struct {
	next time.Duration
	end  time.Time
}

func newBackoff(patience time.Duration) *backoff {
	return &backoff{next: 5 * time.Millisecond, end: time.Now().Add(patience)}
}

// wait says whether to try again.
func (b *backoff) wait(ctx context.Context) bool {
	if time.Now().Add(b.next).After(b.end) {
		return false
	}
	select {
	case <-time.After(b.next):
		b.next = min(2*b.next, 200*time.Millisecond)
		return true
	case <-ctx.Done():
		return false
	}
}
