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
	// ripe is how many points a buffer must have to be written when the server's
	// samples reach a later day.
	ripe = 256
	// maxBatch is how many bytes of chunks are written at once.
	maxBatch = 4 << 20
	// maxPieces is how many chunks a day may have while samples are appended to
	// it: each join writes the whole day again, and each read merges them.
	maxPieces = 32
	// lookEvery is how many samples are added between two looks at the clock:
	// one for each would make an import slower.
	lookEvery = 256
)

// An Import adds samples, servers and reimages to a store, all or nothing:
// nothing of it is visible before Commit, and nothing remains after Abort.
// Samples may come in any order; of two of a server at one moment the one
// added last wins, also over what the store had.
type Import struct {
	store    *Store
	id       uint32
	lease    kv.Lease
	ended    bool   // committed or given up
	added    uint32 // samples
	nth      uint32 // of the next chunk
	buffers  map[cluster.ServerID]*buffer
	last     *buffer // of the sample added last
	held     int     // capacity of the buffers, in points
	room     int     // the most that held may be
	pieces   int     // chunks that the last day may be left in
	before   int64   // days before the first that may have been left in several chunks
	batch    []kv.Record
	bytes    int // in batch
	listed   []cluster.Server
	reimages []cluster.Reimage
}

// A buffer holds the points of a server that are not yet written.
type buffer struct {
	server      cluster.ServerID
	owner       cluster.TenantID
	next        *buffer // the one used after this one the last time
	points      []point
	disordered  bool
	day         int64 // latest day in points
	first, last int64 // days written so far, if written
	written     bool
	revisited   bool // a day was written twice
}

// Begin starts an import. It gives up imports whose lease has expired, such as
// those of a crashed process, and deletes what they wrote.
func (s *Store) Begin(ctx context.Context) (*Import, error) {
	lost, leases, err := s.ledger.takeLost(ctx)
	if err != nil {
		return nil, err
	}
	if len(lost) > 0 {
		if err := s.giveUp(ctx, lost, leases); err != nil {
			return nil, err
		}
	}
	id, lease, err := s.ledger.begin(ctx)
	if err != nil {
		return nil, err
	}
	return &Import{store: s, id: id, lease: lease, room: maxHeld, pieces: 1, buffers: map[cluster.ServerID]*buffer{}}, nil
}

// giveUp gives up those of the imports that have not committed, deletes what
// they wrote, and removes the leases. The ledger comes first: until it says so,
// a stalled import may still commit.
func (s *Store) giveUp(ctx context.Context, ids []uint32, leases []kv.Lease) error {
	dead, err := s.ledger.giveUp(ctx, ids)
	if err != nil {
		return err
	}
	if err := s.sweep(ctx, dead); err != nil {
		return err
	}
	for _, lease := range leases {
		if err := s.ledger.release(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// Import imports all that do adds: it commits if do returns nil, and otherwise
// aborts, even if ctx has ended by then.
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

// Append imports samples that were just taken. It joins the chunks of a day only
// when there are many of them, or when the next day has begun.
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

// SetServers adds what is known about servers; an empty field leaves what the store has.
func (im *Import) SetServers(servers []cluster.Server) { im.listed = append(im.listed, servers...) }

// AddReimages adds reimages. Two of a server at one moment are the same.
func (im *Import) AddReimages(all []cluster.Reimage) { im.reimages = append(im.reimages, all...) }

// Add adds a sample.
func (im *Import) Add(ctx context.Context, s Sample) error {
	if err := s.check(); err != nil {
		return err
	}
	if im.added++; im.added%lookEvery == 0 {
		if err := im.store.ledger.renew(ctx, &im.lease); err != nil {
			return err
		}
	}
	b := im.buffer(s.Server)
	if s.Tenant != "" {
		b.owner = s.Tenant
	}
	if day := s.Milli / dayMilli; day > b.day || len(b.points) == maxPoints {
		// Samples mostly come in order of time, so the earlier day is complete.
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

// buffer gives the buffer of a server; see name for why it tries next first.
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

// flush writes all buffers and frees their memory.
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

// write writes a buffer as one chunk per day.
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
	if err := im.store.ledger.renew(ctx, &im.lease); err != nil {
		return err
	}
	if err := im.store.putChunks(ctx, im.batch); err != nil {
		return err
	}
	clear(im.batch)
	im.batch, im.bytes = im.batch[:0], 0
	return nil
}

// Commit makes the whole import visible at once, and durable. After an error the
// caller must call Abort. If the import is in and only the tidying up after it
// failed, the error says so and Abort does nothing.
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
	if err := im.store.ledger.commit(ctx, im.id); err != nil {
		return err
	}
	im.ended = true
	if err := im.tidy(ctx, known); err != nil {
		return fmt.Errorf("history: the import is in, but tidying up after it failed: %w", err)
	}
	return nil
}

// tidy does what may fail without harm once the import is in.
func (im *Import) tidy(ctx context.Context, known map[cluster.ServerID]Server) error {
	if err := im.store.ledger.release(ctx, im.lease); err != nil {
		return err
	}
	return im.compact(ctx, known)
}

// describe writes what is new about servers and gives the servers known before.
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

// compact joins the chunks of days of which this import may have left several.
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
