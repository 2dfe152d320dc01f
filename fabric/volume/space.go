package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/kv"
)

// A Disk is one disk of the fabric, in this process or at a data server. Its methods do what
// those of disk.Disk do. One that cannot be reached returns an error by the end of ctx.
type Disk interface {
	Identity(ctx context.Context) (disk.Identity, error)
	Read(ctx context.Context, id disk.GroupID, generation uint64, offset int64, buf []byte) error
	Write(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error
	Written(ctx context.Context, id disk.GroupID, generation uint64) (disk.Mask, error)
	Sums(ctx context.Context, id disk.GroupID, generation uint64) ([]disk.Sum, error)
	Salvage(ctx context.Context, id disk.GroupID, generation uint64, slice int, buf []byte) error
	Create(ctx context.Context, id disk.GroupID, vdisk disk.VDiskID, generation uint64) error
	Raise(ctx context.Context, id disk.GroupID, generation uint64) error
	Truncate(ctx context.Context, id disk.GroupID, generation uint64, blocks int) error
	Remove(ctx context.Context, id disk.GroupID, generation uint64) error
	Fence(ctx context.Context, vdisk disk.VDiskID, token uint64) error
	Sync(ctx context.Context) error
	Stat(ctx context.Context, id disk.GroupID) (disk.Info, error)
	List(ctx context.Context, visit func(disk.GroupID) error) error
}

// A Beginner is a Disk that can take a request without the caller waiting for the answer: one at a data server. Each method gives what waits for it, or
// nil if the request could not be sent at once, and was not.
type Beginner interface {
	BeginWrite(ctx context.Context, id disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) (wait func() error)
	BeginSync(ctx context.Context) (wait func() error)
}

// A Pool is the disks that there are.
type Pool interface {
	// Disk gives a disk, or says why it cannot be had now. One that was opened again may lack what it had
	// not synced: what was given for it before fails from then on, and Space.Reopened is called before it is given anew.
	Disk(id cluster.DiskID) (Disk, error)
	// Place chooses disks for n replicas of a group beside those it has. It gives fewer where there are not enough.
	Place(have []cluster.DiskID, n int) []cluster.DiskID
}

// Errors a caller acts on.
var (
	// ErrFenced is returned when another has taken over the vDisk.
	ErrFenced = errors.New("another has taken over the vDisk")
	// ErrNoSpace is returned when no disk has room for a write. Nothing was changed.
	ErrNoSpace = fmt.Errorf("no disk of the fabric has room: %w", syscall.ENOSPC)
	// ErrNoDisk is returned when a write needs a disk, and all were busy or away for as long as a request waits.
	ErrNoDisk = errors.New("no disk of the fabric can be used now: all are busy or away")
	// ErrReadOnly is returned for a write to a snapshot.
	ErrReadOnly = fmt.Errorf("snapshots cannot be written: %w", syscall.EPERM)
	// ErrInUse is returned by Open for a vDisk that another has open.
	ErrInUse = errors.New("in use")
	// ErrClosed is returned for a volume that is closed.
	ErrClosed = errors.New("volume is closed")
	// ErrRange is returned for bytes that do not lie in the vDisk.
	ErrRange = fmt.Errorf("outside the vDisk: %w", syscall.EINVAL)
)

// Options say how patient a Space is. The zero Options have defaults.
type Options struct {
	// Answer is how long a replica may take to answer before it counts as unreachable; 2s.
	Answer time.Duration
	// Patience is how long a request waits for a group of which no replica can be
	// reached, and how long a disk may be missing before the others of a marked group go on without it; 10s.
	Patience time.Duration
	// Lease is how long a writer's lease lasts without being renewed; 10s.
	Lease time.Duration
	// Piece is how long ReapVDisk goes on removing the data of a vDisk; 1s.
	Piece time.Duration
	// Holder is who holds the leases. The next of the same name takes them over at once.
	Holder string
	// SyncAlways makes every write a flushed one.
	SyncAlways bool
	// Now is the time by which the use of groups is noted; time.Now if nil.
	Now func() time.Time
	// Usable reports whether there is any disk that is not away and not busy; nil if there always is.
	Usable func() bool
	// Enough reports whether there are servers for so many replicas that are neither away nor busy, with room or without; nil if that is not known.
	// Then a group that finds room for fewer is not made.
	Enough func(replicas int) bool
	// Reserve chooses disks as Pool.Place does, with space that is kept for upkeep as well; nil if there is none.
	Reserve func(have []cluster.DiskID, n int) []cluster.DiskID
	// GiveWay is called by upkeep between large steps, and returns when clients do not ask for anything, soon in any case; nil if there is no need.
	GiveWay func(context.Context)
	// Degraded is told of groups that have lost a replica; nil if nobody is.
	Degraded func(disk.GroupID)
	// Full is told of a disk that had no room for a write, before it is decided where to write instead; nil if nobody is.
	Full func(cluster.DiskID)
	// Damaged is told of a replica that its disk has lost or let rot; nil if nobody is.
	Damaged func(disk.GroupID, cluster.DiskID)
}

// A Space is all vDisks of a cluster, as one process sees them.
type Space struct {
	maps *maps.Maps
	pool Pool
	o    Options

	naming  sync.Mutex             // held while a name is passed on, and while it is decided what is in use
	reaping sync.Mutex             // held while the data of removed vDisks is removed
	emptied map[disk.VDiskID]int64 // up to which block that was done; held by reaping
	leasing keyed[disk.VDiskID]    // held while a lease is taken, and while it is used without a volume
	shares  sync.Mutex             // held while an extent comes to share a packed group, and while one is removed; taken after locks of groups

	asking  atomic.Pointer[term]
	shunned sync.Map // cluster.DiskID -> time.Time: disks that are asked for reads after the others, and until when

	mu       sync.Mutex
	groups   map[disk.GroupID]*liveGroup
	open     map[disk.VDiskID]*Volume
	readers  map[disk.VDiskID]int         // of snapshots
	tokens   map[disk.VDiskID]uint64      // of the leases of those that are open
	taken    map[disk.VDiskID]kv.Version  // by which their marks are ours, and those of vDisks whose lease is held otherwise
	absent   map[cluster.DiskID]time.Time // since when a disk was found missing
	nameless map[disk.VDiskID]bool        // that were found when it was last looked for what is needless
	ids      struct{ next, end uint64 }   // drawn group ids

	accesses accesses
}

// NewSpace gives a space over maps and disks.
func NewSpace(m *maps.Maps, pool Pool, o Options) *Space {
	o.Answer = orDefault(o.Answer, 2*time.Second)
	o.Patience = orDefault(o.Patience, 10*time.Second)
	o.Lease = orDefault(o.Lease, 10*time.Second)
	o.Piece = orDefault(o.Piece, time.Second)
	if o.Holder == "" {
		o.Holder = "front"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.GiveWay == nil {
		o.GiveWay = func(context.Context) {}
	}
	if o.Degraded == nil {
		o.Degraded = func(disk.GroupID) {}
	}
	if o.Reserve == nil {
		o.Reserve = pool.Place
	}
	if o.Usable == nil {
		o.Usable = func() bool { return true }
	}
	if o.Enough == nil {
		o.Enough = func(int) bool { return false }
	}
	if o.Full == nil {
		o.Full = func(cluster.DiskID) {}
	}
	if o.Damaged == nil {
		o.Damaged = func(disk.GroupID, cluster.DiskID) {}
	}
	return &Space{maps: m, pool: pool, o: o, emptied: map[disk.VDiskID]int64{}, groups: map[disk.GroupID]*liveGroup{}, open: map[disk.VDiskID]*Volume{}, readers: map[disk.VDiskID]int{}, tokens: map[disk.VDiskID]uint64{}, taken: map[disk.VDiskID]kv.Version{}, absent: map[cluster.DiskID]time.Time{},
		accesses: accesses{used: map[disk.GroupID]tiering.Access{}}}
}

// A term is a context that requests to replicas share.
type term struct {
	ctx   context.Context
	until time.Time // who asks later gets another
}

// term gives a context that ends when a replica which is asked now has had its time to answer, or an eighth of that later. To make one for each request,
// and to end it, would cost a tenth of what a small read does.
func (s *Space) term() context.Context {
	now := time.Now()
	if t := s.asking.Load(); t != nil && now.Before(t.until) {
		return t.ctx
	}
	more := s.o.Answer / 8
	ctx, end := context.WithTimeout(context.Background(), s.o.Answer+more)
	context.AfterFunc(ctx, end)
	s.asking.Store(&term{ctx, now.Add(more)})
	return ctx
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// idBatch is how many group ids are drawn at once, so that a new group costs no write for its id.
const idBatch = 64

func (s *Space) newGroupID(ctx context.Context) (disk.GroupID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids.next == s.ids.end {
		first, err := s.maps.Draw(ctx, maps.GroupIDs, idBatch)
		if err != nil {
			return 0, err
		}
		s.ids.next, s.ids.end = first, first+idBatch
	}
	s.ids.next++
	return disk.GroupID(s.ids.next - 1), nil
}

// maxGroups is how many groups are remembered: 256 GiB of data in about 16 MiB of memory.
const maxGroups = 64 << 10

// pin gives the live group of an id, which stays until it is unpinned.
func (s *Space) pin(id disk.GroupID) *liveGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[id]
	if !ok {
		if len(s.groups) >= maxGroups {
			s.forget()
		}
		g = &liveGroup{id: id, space: s}
		s.groups[id] = g
	}
	g.pins++
	return g
}

func (s *Space) unpin(g *liveGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.pins--
}

// forget drops some groups that nobody uses. The map's order is as good as any.
func (s *Space) forget() {
	n := 0
	for id, g := range s.groups {
		if g.pins == 0 {
			delete(s.groups, id)
			if n++; n == maxGroups/16 {
				return
			}
		}
	}
}
