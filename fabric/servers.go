package fabric

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
	"gleaner/fabric/upkeep"
)

// beatEvery is how often a data server is asked how it is, and beatTime how long it may take to answer: one that is
// stopped or cut off is left out within three seconds. A machine under load may take a second.
const (
	beatEvery = 500 * time.Millisecond
	beatTime  = 2 * time.Second
)

// hungAfter is how old what a server says of a disk may be: a disk that hangs is left out.
const hungAfter = 5 * time.Second

// Grace is how long a disk may be away before it counts as lost and its replicas are rebuilt elsewhere (OSDI'16 §5.1: ten and a half minutes).
const Grace = 10*time.Minute + 30*time.Second

// Watch takes the data servers of a registry in, those that come later as well, until ctx ends. It returns when those that
// answer were first heard.
func (f *Front) Watch(ctx context.Context, r *registry.Registry) error {
	past, err := f.remembered(ctx)
	if err != nil {
		return err
	}
	w := &watch{front: f, registry: r, memory: past, servers: map[string]*server{}}
	entries, err := w.look(ctx)
	if err != nil {
		return err
	}
	var first sync.WaitGroup
	for _, s := range entries {
		first.Go(func() { w.beat(ctx, s) })
	}
	first.Wait()
	f.upkeep.Go(func() { w.run(ctx) })
	return nil
}

// A watch asks data servers how they are.
type watch struct {
	front    *Front
	registry *registry.Registry
	memory   *memory
	servers  map[string]*server
}

// A server is a data server as it was last heard.
type server struct {
	entry  registry.Server
	client *dataserver.Client
	asking sync.Mutex
	disks  map[cluster.DiskID]disk.Identity // that it had
	seen   map[cluster.DiskID]uint64        // as they were opened when they were last heard of
}

func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	var beats sync.WaitGroup
	defer beats.Wait()
	for {
		select {
		case <-ctx.Done():
			for _, s := range w.servers {
				s.client.Close()
			}
			return
		case <-tick.C:
		}
		all, err := w.look(ctx)
		if err != nil {
			w.front.log.Warn("the list of data servers cannot be read", "error", err)
		}
		for _, s := range all {
			beats.Go(func() { w.beat(ctx, s) })
		}
	}
}

// look reads the registry, and gives the servers to ask. A server whose entry has changed is another. While the registry cannot be read, those
// that were known before are asked.
func (w *watch) look(ctx context.Context) (all []*server, err error) {
	entries, err := w.registry.Servers(ctx)
	if err != nil {
		return slices.Collect(maps.Values(w.servers)), err
	}
	w.front.register(entries)
	w.remember(ctx, entries)
	for name, s := range w.servers {
		if !slices.ContainsFunc(entries, func(e registry.Server) bool { return e.Name == name }) {
			w.forget(s, errors.New("its entry is gone"))
			delete(w.servers, name)
		}
	}
	for _, e := range entries {
		s, failed := w.current(e)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		all = append(all, s)
	}
	return all, err
}

// current gives the server of an entry.
func (w *watch) current(e registry.Server) (*server, error) {
	s := w.servers[e.Name]
	if s != nil && s.entry.Address == e.Address && serverOf(s.entry) == serverOf(e) {
		return s, nil
	}
	client, err := dataserver.NewClient(e.Address, dataserver.Cluster{ID: w.registry.ID, Key: w.registry.Key})
	if err != nil {
		return nil, err
	}
	if s != nil {
		w.forget(s, errors.New("its entry has changed"))
	}
	s = &server{entry: e, client: client, disks: map[cluster.DiskID]disk.Identity{}, seen: map[cluster.DiskID]uint64{}}
	w.servers[e.Name] = s
	w.front.Join(serverOf(e))
	return s, nil
}

// forget leaves out a server that is not there any more as it was: what it had may be nowhere now.
func (w *watch) forget(s *server, why error) {
	s.client.Close() // ends a beat that is under way
	s.asking.Lock()
	defer s.asking.Unlock()
	w.front.away(s, why)
}

// remember notices servers that were reimaged. What their disks held is made anew as soon as their new disks were heard of, which can take it.
func (w *watch) remember(ctx context.Context, entries []registry.Server) {
	now := time.Now()
	wiped, news, err := w.memory.notice(ctx, entries, now)
	if err != nil && ctx.Err() == nil {
		w.front.log.Warn("data servers are not remembered; reimages may be missed", "error", err)
	}
	if news {
		w.front.pool.learn(func(h *habits) { h.seen = w.memory.rates(entries, now) })
	}
	for d, on := range wiped {
		w.front.log.Warn("data server was reimaged", "server", string(on), "disk", string(d))
		time.AfterFunc(again, func() { w.front.noteWiped(d) })
	}
}

// beat asks a server how it is, unless it is being asked.
func (w *watch) beat(ctx context.Context, s *server) {
	if !s.asking.TryLock() {
		return
	}
	defer s.asking.Unlock()
	asked, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	b, err := s.client.Beat(asked)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.front.away(s, err)
		return
	}
	w.front.heard(ctx, s, b)
}

// register remembers which servers and disks there are, be they up or not.
func (f *Front) register(entries []registry.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = map[cluster.DiskID]Lent{}
	for _, e := range entries {
		f.servers[cluster.ServerID(e.Name)] = true
		for _, d := range e.Disks {
			f.listed[cluster.DiskID(d.ID)] = Lent{Server: e.Name, Disk: d.ID, Tier: string(d.Tier), State: away, Quota: d.Quota}
			f.pool.settle(cluster.DiskID(d.ID), cluster.ServerID(e.Name))
		}
	}
}

// wiped reports whether a disk is of none of the servers that there are, though there are some: one that was wiped has another name.
func (f *Front) wiped(id cluster.DiskID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, listed := f.listed[id]
	return len(f.listed) > 0 && !listed
}

// away leaves out the disks of a server that does not answer.
func (f *Front) away(s *server, why error) {
	if len(s.disks) == 0 {
		return
	}
	f.log.Warn("data server is away", "server", s.entry.Name, "why", why)
	f.pool.leave(cluster.ServerID(s.entry.Name), s.disks)
	for id := range s.disks {
		f.space.Missed(id, time.Now())
	}
	clear(s.disks)
	f.curation.want(upkeep.Disks)
}

// heard takes in what a server says of itself.
func (f *Front) heard(ctx context.Context, s *server, b dataserver.Beat) {
	on := cluster.ServerID(s.entry.Name)
	use := cluster.DataUse{On: on, Busy: b.Busy}
	now := map[cluster.DiskID]disk.Identity{}
	for _, d := range b.Disks {
		id := cluster.DiskID(d.Identity.Disk)
		if d.Failed != "" || d.Age > hungAfter || !slices.Contains(tiers, cluster.Tier(d.Identity.Tier)) || f.pool.elsewhere(id, on) {
			f.log.Debug("disk is left out", "disk", d.Identity.Disk, "server", s.entry.Name, "failed", d.Failed, "age", d.Age)
			continue
		}
		free := cluster.Bytes(max(0, min(d.Identity.Quota-d.Used, d.Free)))
		if s.seen[id] != d.Identity.Opened { // one that was only away has lost nothing
			if err := f.space.Reopened(ctx, id); err != nil { // it is taken in at the next beat
				f.log.Warn("disk not taken in", "disk", d.Identity.Disk, "error", err)
				continue
			}
			s.seen[id] = d.Identity.Opened
		}
		if s.disks[id].Opened != d.Identity.Opened {
			tier := cluster.Tier(d.Identity.Tier)
			f.pool.add(cluster.Disk{ID: id, Tier: tier, Quota: cluster.Bytes(d.Identity.Quota), Free: free}, pooled{Disk: s.client.Opened(d.Identity), on: on, tier: tier, opened: d.Identity.Opened, busy: b.Busy})
			f.space.Missed(id, time.Time{})
			f.log.Info("disk", "disk", d.Identity.Disk, "server", s.entry.Name, "free", free)
		}
		now[id] = d.Identity
		use.Disks = append(use.Disks, cluster.DiskUse{ID: id, Free: free, Errors: int(d.Rotten)})
	}
	gone := map[cluster.DiskID]disk.Identity{}
	for id, was := range s.disks {
		if _, still := now[id]; !still {
			gone[id] = was
		}
	}
	f.pool.remove(gone)
	if len(gone) > 0 {
		f.curation.want(upkeep.Disks)
	}
	s.disks = now
	f.pool.report(use)
}

// elsewhere reports whether a disk of that id is at another server: of a disk and its copy, the first counts.
func (p *pool) elsewhere(id cluster.DiskID, on cluster.ServerID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.disks[id]
	return ok && d.on != on
}

// leave takes out all disks of a server.
func (p *pool) leave(on cluster.ServerID, disks map[cluster.DiskID]disk.Identity) {
	p.tell(cluster.Event{Kind: cluster.DataServerLeft, On: on})
	p.remove(disks)
}

// remove takes out disks.
func (p *pool) remove(disks map[cluster.DiskID]disk.Identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range disks {
		for _, f := range p.fleets {
			f.step(cluster.Event{Kind: cluster.DiskLeft, Disk: &cluster.Disk{ID: id}})
		}
		delete(p.disks, id)
	}
}

// errAway is why a disk cannot be used.
var errAway = errors.New("cannot be reached")
