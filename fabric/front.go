package fabric

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
	"gleaner/input"
	"gleaner/kv"
)

// Options say what a Front is made of.
type Options struct {
	Store      kv.Store         // where the maps are; stays the caller's to close
	Holder     string           // who holds the leases of vDisks, one of its own for each front of a store; empty if there is one front
	SyncAlways bool             // every write is on stable storage when it is answered
	Grace      time.Duration    // how long a disk may be away before it counts as lost; 0 means Grace
	Log        *slog.Logger     // nil says nothing
	Now        func() time.Time // what upkeep goes by; nil means time.Now
	Policy     upkeep.Policy    // when upkeep is due; the zero Policy means upkeep.Default
}

// A Front knows all vDisks of a cluster.
type Front struct {
	o     Options
	maps  *maps.Maps
	pool  *pool
	space *volume.Space
	log   *slog.Logger

	mu      sync.Mutex
	opened  map[string]*shared        // volumes in use, by name
	servers map[cluster.ServerID]bool // that have joined or are registered
	listed  map[cluster.DiskID]Lent   // disks of registered servers, as they are listed

	served   served
	tending  sync.Mutex // held while upkeep uses a vDisk: that is no use which others are told of
	curation *curation
	degraded chan disk.GroupID
	damaged  chan damage
	damages  damages
	wipes    chan cluster.DiskID
	stop     context.CancelFunc
	upkeep   sync.WaitGroup
}

// A shared volume is open as long as somebody uses it.
type shared struct {
	users  int           // 0 while it is being closed
	ready  chan struct{} // closed when volume or err is set
	volume *volume.Volume
	err    error
	gone   chan struct{} // closed when it is closed
}

// Open starts a front. Its disks are added afterwards.
func Open(ctx context.Context, o Options) (*Front, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = Grace
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Policy == (upkeep.Policy{}) {
		o.Policy = upkeep.Default()
	}
	if err := o.Policy.Check(); err != nil {
		return nil, err
	}
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, err
	}
	writer := kv.NewWriter(binary.LittleEndian.Uint64(seed[:]))
	m, err := maps.Open(ctx, o.Store, writer)
	if err != nil {
		return nil, err
	}
	f := &Front{o: o, maps: m, pool: newPool(binary.LittleEndian.Uint64(seed[:])), log: o.Log, opened: map[string]*shared{}, servers: map[cluster.ServerID]bool{},
		degraded: make(chan disk.GroupID, 1<<16), damaged: make(chan damage, 1<<10), wipes: make(chan cluster.DiskID, 1<<10)}
	f.space = volume.NewSpace(m, f.pool, volume.Options{Holder: o.Holder, SyncAlways: o.SyncAlways, Now: o.Now, Usable: f.pool.usable, Enough: f.pool.enough, Reserve: f.pool.Reserve, GiveWay: f.served.giveWay, Degraded: f.note, Full: f.pool.full, Damaged: f.noteDamage})
	if f.curation, err = newCuration(ctx, f, writer); err != nil {
		return nil, err
	}
	if err := f.learnRetired(ctx); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.upkeep.Go(func() { f.keepUp(run) })
	f.upkeep.Go(func() { f.curation.run(run) })
	f.upkeep.Go(func() { f.scrub(run) })
	return f, nil
}

// Join takes a server into the cluster: where it stands decides where replicas go.
func (f *Front) Join(s cluster.Server) {
	f.mu.Lock()
	f.servers[s.ID] = true
	f.mu.Unlock()
	f.pool.tell(cluster.Event{Kind: cluster.ServerJoined, On: s.ID, Server: &s})
}

// Add takes in a disk that this process has open, on a server that has joined.
func (f *Front) Add(on cluster.ServerID, d *disk.Disk) {
	id := d.Identity()
	use := d.Usage()
	tier := cluster.Tier(id.Tier)
	f.pool.add(cluster.Disk{ID: cluster.DiskID(id.Disk), Tier: tier, Quota: cluster.Bytes(id.Quota), Free: cluster.Bytes(max(0, id.Quota-use.Used))},
		pooled{Disk: dataserver.Local(d), on: on, tier: tier, opened: id.Opened, here: d})
}

// Servers is how many servers there are, be they up or not.
func (f *Front) Servers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.servers)
}

// note remembers a group that lacks a replica. If there are too many, the next look at all of them finds it.
func (f *Front) note(id disk.GroupID) {
	select {
	case f.degraded <- id:
	default:
	}
}

// noteDamage remembers a replica that its disk has lost or let rot. If there are too many, the next read finds it again.
func (f *Front) noteDamage(id disk.GroupID, on cluster.DiskID) {
	select {
	case f.damaged <- damage{id, on}:
	default:
	}
}

// noteWiped remembers a disk that was wiped. If there are too many, it counts as lost when it has been away for long.
func (f *Front) noteWiped(id cluster.DiskID) {
	select {
	case f.wipes <- id:
	default:
	}
}

// A damage is a replica that cannot be trusted.
type damage struct {
	group disk.GroupID
	on    cluster.DiskID
}

// Tidy removes the data of removed vDisks.
func (f *Front) Tidy(ctx context.Context) error {
	return f.space.Reap(ctx)
}

// Close closes all volumes. Nobody may use the front any more.
func (f *Front) Close() error {
	f.stop()
	f.upkeep.Wait()
	f.mu.Lock()
	opened := f.opened
	f.opened = map[string]*shared{}
	f.mu.Unlock()
	var errs []error
	for _, s := range opened {
		<-s.ready
		if s.volume != nil {
			errs = append(errs, s.volume.Close())
		}
	}
	f.keepAccess()
	return errors.Join(errs...)
}

// Create makes an empty vDisk. With no replicas given it gets as many as there are servers, up to three.
func (f *Front) Create(ctx context.Context, name string, size int64, replicas int) (maps.VDisk, error) {
	if replicas == 0 {
		replicas = max(1, min(3, f.Servers()))
	}
	if err := CheckNew(name, size, replicas); err != nil {
		return maps.VDisk{}, err
	}
	v, err := f.space.Create(ctx, name, size, replicas, time.Now().UTC().Truncate(time.Second))
	return v, named(err, "name", name)
}

// MaxReplicas is how many replicas a vDisk may have.
const MaxReplicas = 5

// CheckNew says what is wrong with a vDisk that is to be made.
func CheckNew(name string, size int64, replicas int) error {
	if err := errors.Join(checkName("name", name), checkSize(size)); err != nil {
		return err
	}
	if replicas < 1 || replicas > MaxReplicas {
		return input.Fieldf("replicas", "%d is not a number from 1 to %d", replicas, MaxReplicas)
	}
	return nil
}

const maxName = 100

// checkName allows names that are safe in a path, in a URI and on a command line.
func checkName(field, name string) error {
	good := name != "" && len(name) <= maxName && name[0] != '.' && name[0] != '-'
	for _, c := range []byte(name) {
		good = good && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_')
	}
	if !good {
		return input.Fieldf(field, "%q: a name has 1 to %d letters, digits, dots, dashes and underscores, and begins with a letter, digit or underscore", name, maxName)
	}
	return nil
}

const sector = 512

func checkSize(size int64) error {
	if size <= 0 || size > volume.MaxSize || size%sector != 0 {
		return input.Fieldf("size", "%d bytes: a size is a multiple of %d from %d to 64 TiB", size, sector, sector)
	}
	return nil
}

// mistakes are what a user can mend, and how it is said.
var mistakes = []struct {
	cause error
	says  string
}{
	{maps.ErrExists, "is taken"},
	{maps.ErrNotFound, "there is no such vDisk"},
	{volume.ErrInUse, "is in use"},
	{volume.ErrNoSnapshot, "is not a snapshot"},
	{volume.ErrReadOnly, "is a snapshot, which cannot be changed"},
}

// named makes a mistake an error of the field that it is in.
func named(err error, field, name string) error {
	for _, m := range mistakes {
		if errors.Is(err, m.cause) {
			return &input.Error{Field: field, Msg: fmt.Sprintf("%s: %s", name, m.says), Err: err}
		}
	}
	return err
}

// Remove takes a vDisk or a snapshot away, unless it is in use.
func (f *Front) Remove(ctx context.Context, name string) error {
	f.tending.Lock()
	err := f.space.Remove(ctx, name)
	f.tending.Unlock()
	if err == nil {
		f.curation.want(upkeep.VDisks)
	}
	return named(err, "name", name)
}

// Clone makes a vDisk that begins as a snapshot is.
func (f *Front) Clone(ctx context.Context, snapshot, name string) error {
	if err := checkName("name", name); err != nil {
		return err
	}
	v, err := f.maps.Find(ctx, snapshot)
	if err == nil && !v.Snapshot {
		err = volume.ErrNoSnapshot
	}
	if err != nil {
		return named(err, "snapshot", snapshot)
	}
	_, err = f.space.Clone(ctx, snapshot, name, time.Now().UTC().Truncate(time.Second))
	return named(err, "name", name)
}

// Snapshot keeps a vDisk as it is now, under a name of its own.
func (f *Front) Snapshot(ctx context.Context, name, snapshot string) error {
	if err := checkName("snapshot", snapshot); err != nil {
		return err
	}
	if _, err := f.maps.Find(ctx, snapshot); !errors.Is(err, maps.ErrNotFound) {
		return named(cmp.Or(err, maps.ErrExists), "snapshot", snapshot)
	}
	return f.with(ctx, name, func(v *volume.Volume) error { return v.Snapshot(ctx, snapshot, time.Now().UTC().Truncate(time.Second)) })
}

// Resize changes the size of a vDisk. One that is in use can only grow: its clients do not expect to lose their end.
func (f *Front) Resize(ctx context.Context, name string, size int64) error {
	if err := checkSize(size); err != nil {
		return err
	}
	v, err := f.maps.Find(ctx, name)
	if err != nil {
		return named(err, "name", name)
	}
	f.tending.Lock()
	defer f.tending.Unlock()
	f.mu.Lock()
	used := f.opened[name] != nil
	f.mu.Unlock()
	if used && size < v.Size {
		return named(volume.ErrInUse, "name", name)
	}
	return f.with(ctx, name, func(v *volume.Volume) error { return v.Resize(ctx, size) })
}

// with calls do with a volume that stays open meanwhile.
func (f *Front) with(ctx context.Context, name string, do func(*volume.Volume) error) (err error) {
	v, err := f.use(ctx, name)
	if err != nil {
		return named(err, "name", name)
	}
	defer func() { err = errors.Join(err, f.leave(name)) }()
	return named(do(v), "name", name)
}

// use opens a volume, or joins those who have it open. Each use is followed by a leave.
func (f *Front) use(ctx context.Context, name string) (*volume.Volume, error) {
	for {
		f.mu.Lock()
		s := f.opened[name]
		switch {
		case s == nil:
			s = &shared{users: 1, ready: make(chan struct{}), gone: make(chan struct{})}
			f.opened[name] = s
			f.mu.Unlock()
			return f.open(ctx, name, s)
		case s.users == 0: // it is being closed
			f.mu.Unlock()
			select {
			case <-s.gone:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
			s.users++
			f.mu.Unlock()
			<-s.ready
			return s.volume, s.err
		}
	}
}

// open opens a volume for all who wait for it.
func (f *Front) open(ctx context.Context, name string, s *shared) (*volume.Volume, error) {
	defer close(s.ready)
	vdisk, err := f.maps.Find(ctx, name)
	if err == nil {
		s.volume, err = f.space.Open(ctx, vdisk.ID)
	}
	for errors.Is(err, maps.ErrChanged) && ctx.Err() == nil { // another front made a snapshot of it
		if vdisk, err = f.maps.Find(ctx, name); err == nil {
			s.volume, err = f.space.Open(ctx, vdisk.ID)
		}
	}
	if err != nil {
		s.err = err
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.opened, name)
	}
	return s.volume, err
}

// leave closes a volume that nobody uses any more. Others wait for that only if they want the same.
func (f *Front) leave(name string) error {
	f.mu.Lock()
	s, ok := f.opened[name]
	if !ok {
		f.mu.Unlock()
		return nil // the front is closed
	}
	s.users--
	last := s.users == 0
	f.mu.Unlock()
	if !last {
		return nil
	}
	err := s.volume.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.opened, name)
	close(s.gone)
	return err
}
