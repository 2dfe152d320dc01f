package history

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gleaner/cluster"
	"gleaner/kv"
)

const (
	// maxHeld bounds the points an import holds in memory, over all servers: 128 MiB.
	maxHeld = 8 << 20
	// ripe is how many points make a day's chunk worth writing once the server
	// has gone on to a later day.
	ripe = 256
	// maxBatch is how many bytes of chunks are written at once.
	maxBatch = 4 << 20
	// maxPieces is how many pieces a day may lie in while samples are appended to
	// it: each join writes the whole day again, and each read puts them together.
	maxPieces = 32
	// lookEvery is how many samples are added between two looks at the clock,
	// which takes as long as a fifth of adding one.
	lookEvery = 256
)

// An Import adds samples, servers and reimages to a store, all or nothing:
// nothing of it is seen before Commit, and nothing remains of it after Abort.
// Samples may come in any order; of two at the same moment of a server the one
// added last wins, also over what the store had.
type Import struct {
	store    *Store
	id       uint32
	lease    kv.Lease
	ended    bool   // committed or given up
	added    uint32 // samples, to look at the clock now and then
	nth      uint32 // of the next chunk
	buffers  map[cluster.ServerID]*buffer
	last     *buffer // of the sample added last
	held     int     // points that fit the buffers
	room     int     // points that may be held
	pieces   int     // that the last day may be left in
	before   int64   // days before the first that may have been left in pieces
	batch    []kv.Record
	bytes    int // in batch
	listed   []cluster.Server
	reimages []cluster.Reimage
}

// A buffer holds the points of a server that are not yet written.
type buffer struct {
	server      cluster.ServerID
	owner       cluster.TenantID
	next        *buffer // of the server that came after this one the last time
	points      []point
	disordered  bool
	day         int64 // latest day in points
	first, last int64 // days written so far, when any
	written     bool
	revisited   bool // a day was written twice
}

// Begin starts an import. Imports whose lease ran out, as a crash leaves them,
// are given up, and what they wrote is removed.
func (s *Store) Begin(ctx context.Context) (*Import, error) {
	lost, leases, err := s.books.takeLost(ctx)
	if err != nil {
		return nil, err
	}
	if len(lost) > 0 {
		if err := s.giveUp(ctx, lost, leases); err != nil {
			return nil, err
		}
	}
	id, lease, err := s.books.begin(ctx)
	if err != nil {
		return nil, err
	}
	return &Import{store: s, id: id, lease: lease, room: maxHeld, pieces: 1, buffers: map[cluster.ServerID]*buffer{}}, nil
}

// giveUp gives up those of the imports that have not committed, deletes what
// they wrote, and removes the leases. The ledger comes first: until it says so,
// a stalled import may still commit.
func (s *Store) giveUp(ctx context.Context, ids []uint32, leases []kv.Lease) error {
	dead, err := s.books.giveUp(ctx, ids)
	if err != nil {
		return err
	}
	if err := s.sweep(ctx, dead); err != nil {
		return err
	}
	for _, lease := range leases {
		if err := s.books.release(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// Import runs an import of all that do adds: it commits when do returns nil, and
// otherwise gives the import up, also when ctx has ended by then.
func (s *Store) Import(ctx context.Context, do func(*Import) error) error {
	im, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	if err = do(im); err == nil {
		if err = im.Commit(ctx); err == nil {
			return nil
		}
	}
	if abortErr := im.Abort(context.WithoutCancel(ctx)); abortErr != nil {
		return fmt.Errorf("%w; and giving the import up failed: %w", err, abortErr)
	}
	return err
}

// Append adds samples that were just taken. It is an import that does not join a
// day's pieces before there are many of them, or the next day has begun.
func (s *Store) Append(ctx context.Context, samples ...Sample) error {
	return s.Import(ctx, func(im *Import) error {
		im.pieces, im.before = maxPieces, 1
		for _, sample := range samples {
			if err := im.Add(ctx, sample); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetServers tells what is known of servers; fields that say nothing leave what the store knows.
func (im *Import) SetServers(servers []cluster.Server) { im.listed = append(im.listed, servers...) }

// AddReimages adds reimages. Two of a server at one moment are the same.
func (im *Import) AddReimages(all []cluster.Reimage) { im.reimages = append(im.reimages, all...) }

// Add adds a sample.
func (im *Import) Add(ctx context.Context, s Sample) error {
	if err := s.check(); err != nil {
		return err
	}
	if im.added++; im.added%lookEvery == 0 {
		if err := im.store.books.renew(ctx, &im.lease); err != nil {
			return err
		}
	}
	b := im.buffer(s.Server)
	if s.Tenant != "" {
		b.owner = s.Tenant
	}
	if day := s.Milli / dayMilli; day > b.day || len(b.points) == maxPoints {
		// Rows mostly come in order of time, and the day that ended is whole.
		if len(b.points) >= ripe {
			if err := im.write(ctx, b); err != nil {
				return err
			}
		}
		b.day = max(day, b.day)
	}
	n := len(b.points)
	b.disordered = b.disordered || n > 0 && s.Milli <= b.points[n-1].milli
	before := cap(b.points)
	b.points = append(b.points, point{s.Milli, toMillionths(s.CPU), toMillionths(s.Mem)})
	if im.held += cap(b.points) - before; im.held > im.room {
		return im.flush(ctx)
	}
	return nil
}

// buffer gives the buffer of a server; see name for why it looks at the next first.
func (im *Import) buffer(server cluster.ServerID) *buffer {
	last := im.last
	if last != nil && last.server == server {
		return last
	}
	if last != nil && last.next != nil && last.next.server == server {
		im.last = last.next
		return im.last
	}
	b := im.buffers[server]
	if b == nil {
		b = &buffer{server: server}
		im.buffers[server] = b
	}
	if last != nil {
		last.next = b
	}
	im.last = b
	return b
}

// flush writes all buffers and lets go of their memory.
func (im *Import) flush(ctx context.Context) error {
	for _, server := range slices.Sorted(maps.Keys(im.buffers)) {
		b := im.buffers[server]
		if err := im.write(ctx, b); err != nil {
			return err
		}
		b.points = nil
	}
	im.held = 0
	return im.put(ctx)
}

// write packs a buffer into a chunk a day.
func (im *Import) write(ctx context.Context, b *buffer) error {
	points := b.points
	if b.disordered {
		points = order(points)
	}
	b.points, b.disordered = b.points[:0], false
	for len(points) > 0 {
		day := points[0].milli / dayMilli
		today := between(points, 0, (day+1)*dayMilli)
		points = points[len(today):]
		chunk := im.store.codec.encode(today)
		key := kv.Key{Part: []byte(b.server), Row: rowKey{day, im.id, im.nth}.bytes()}
		im.nth++
		im.batch = append(im.batch, kv.Record{Key: key, Value: chunk})
		im.bytes += len(chunk)
		b.wrote(day)
		if im.bytes >= maxBatch {
			if err := im.put(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *buffer) wrote(day int64) {
	if !b.written {
		b.written, b.first, b.last = true, day, day
		return
	}
	b.revisited = b.revisited || day <= b.last
	b.first, b.last = min(b.first, day), max(b.last, day)
}

func (im *Import) put(ctx context.Context) error {
	if err := im.store.books.renew(ctx, &im.lease); err != nil {
		return err
	}
	if err := im.store.putChunks(ctx, im.batch); err != nil {
		return err
	}
	clear(im.batch)
	im.batch, im.bytes = im.batch[:0], 0
	return nil
}

// Commit makes all of the import visible at once, and durable. After an error
// Abort is still due. If the import is in and only the tidying up failed, the
// error says so and Abort does nothing.
func (im *Import) Commit(ctx context.Context) error {
	if err := im.flush(ctx); err != nil {
		return err
	}
	known, err := im.describe(ctx)
	if err != nil {
		return err
	}
	if err := im.store.putReimages(ctx, im.id, im.reimages); err != nil {
		return err
	}
	if err := im.store.books.commit(ctx, im.id); err != nil {
		return err
	}
	im.ended = true
	if err := im.tidy(ctx, known); err != nil {
		return fmt.Errorf("history: the import is in, but tidying up after it failed: %w", err)
	}
	return nil
}

// tidy does what a committed import can do without.
func (im *Import) tidy(ctx context.Context, known map[cluster.ServerID]Server) error {
	if err := im.store.books.release(ctx, im.lease); err != nil {
		return err
	}
	return im.compact(ctx, known)
}

// describe writes what is new about servers and gives those known before.
func (im *Import) describe(ctx context.Context) (map[cluster.ServerID]Server, error) {
	all, err := im.store.Servers(ctx)
	if err != nil {
		return nil, err
	}
	known := map[cluster.ServerID]Server{}
	for _, s := range all {
		known[s.ID] = s
	}
	news := map[cluster.ServerID]Server{}
	for id, b := range im.buffers {
		news[id] = Server{Owner: b.owner}
	}
	for _, listed := range im.listed {
		s := news[listed.ID]
		s.update(Server{Server: listed})
		news[listed.ID] = s
	}
	var changed []Server
	for _, id := range slices.Sorted(maps.Keys(news)) {
		said := news[id]
		said.ID = id
		now := known[id]
		now.ID = id
		if now.update(said); now != known[id] {
			changed = append(changed, said)
		}
	}
	return known, im.store.putServers(ctx, im.id, changed)
}

// compact joins the chunks of a day into one where this import may have left several.
func (im *Import) compact(ctx context.Context, known map[cluster.ServerID]Server) error {
	for _, server := range slices.Sorted(maps.Keys(im.buffers)) {
		b := im.buffers[server]
		if _, old := known[server]; !old && !b.revisited {
			continue
		}
		if err := im.store.join(ctx, server, max(b.first-im.before, 0), b.last, im.pieces); err != nil {
			return err
		}
	}
	return nil
}

// Abort gives the import up and removes what it wrote. After Commit it does nothing.
func (im *Import) Abort(ctx context.Context) error {
	if im.ended {
		return nil
	}
	im.ended = true
	return im.store.giveUp(ctx, []uint32{im.id}, []kv.Lease{im.lease})
}
