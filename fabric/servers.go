package fabric

import (
	"context"
	"errors"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/registry"
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
	w := &watch{front: f, registry: r, servers: map[string]*server{}}
	entries, err := w.look()
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
		all, err := w.look()
		if err != nil {
			w.front.log.Warn("the list of data servers cannot be read", "error", err)
		}
		for _, s := range all {
			beats.Go(func() { w.beat(ctx, s) })
		}
	}
}

// look reads the registry. A server whose entry has changed is another.
func (w *watch) look() (all []*server, err error) {
	entries, err := w.registry.Servers()
	if err == nil {
		w.front.register(entries)
	}
	for _, e := range entries {
		s := w.servers[e.Name]
		if s == nil || s.entry.Address != e.Address || s.entry.Tenant != e.Tenant || s.entry.Environment != e.Environment {
			client, err := dataserver.NewClient(e.Address, dataserver.Cluster{ID: w.registry.ID, Key: w.registry.Key})
			if err != nil {
				return all, err
			}
			if s != nil {
				s.client.Close()
			}
			s = &server{entry: e, client: client, disks: map[cluster.DiskID]disk.Identity{}, seen: map[cluster.DiskID]uint64{}}
			w.servers[e.Name] = s
		}
		all = append(all, s)
	}
	return all, err
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
	clear(s.disks)
}

// heard takes in what a server says of itself.
func (f *Front) heard(ctx context.Context, s *server, b dataserver.Beat) {
	on := cluster.ServerID(s.entry.Name)
	if len(s.disks) == 0 {
		f.Join(cluster.Server{ID: on, Environment: s.entry.Environment, Function: s.entry.Tenant})
	}
	use := cluster.DataUse{On: on, Busy: b.Busy}
	now := map[cluster.DiskID]disk.Identity{}
	for _, d := range b.Disks {
		id := cluster.DiskID(d.Identity.Disk)
		if d.Failed != "" || d.Age > hungAfter || f.pool.elsewhere(id, on) {
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
			f.pool.add(cluster.Disk{ID: id, Tier: tier, Quota: cluster.Bytes(d.Identity.Quota), Free: free}, pooled{s.client.Opened(d.Identity), on, tier, d.Identity.Opened, nil, cluster.Bytes(d.Identity.Quota), free, b.Busy})
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
			f.Step(cluster.Event{Kind: cluster.DiskLeft, Disk: &cluster.Disk{ID: id}})
		}
		delete(p.disks, id)
	}
}

// errAway is why a disk cannot be used.
var errAway = errors.New("cannot be reached")
