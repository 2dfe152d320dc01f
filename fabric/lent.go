package fabric

import (
	"cmp"
	"context"
	"slices"

	"gleaner/cluster"
)

// A Lent disk is one that a server lends to the fabric.
type Lent struct {
	Server string `json:"server"`
	Disk   string `json:"disk"`
	Tier   string `json:"tier"`
	State  string `json:"state"` // up, busy (its owner needs the server), away, retiring (it is being emptied) or retired (it is empty)
	Quota  int64  `json:"quota"` // bytes that may be used
	Free   int64  `json:"free"`  // of them; 0 if it is away
	// Left is how many replicas a disk that is being emptied still has, and Stuck how many of these no other disk has room for.
	Left  int `json:"left,omitempty"`
	Stuck int `json:"stuck,omitempty"`
}

// Lent lists all disks, those that are away too, by server.
func (f *Front) Lent(ctx context.Context) ([]Lent, error) {
	f.pool.refresh()
	leaving, err := f.leaving(ctx)
	if err != nil {
		return nil, err
	}
	disks := f.pool.all()
	all := make([]Lent, 0, len(disks))
	for id, d := range disks {
		l := Lent{Server: string(d.on), Disk: string(id), Tier: string(d.tier), State: "up", Quota: int64(d.quota), Free: int64(d.free)}
		switch left, retired := leaving[id]; {
		case retired && left.known && left.replicas == 0:
			l.State = "retired"
		case retired:
			l.State, l.Left, l.Stuck = "retiring", left.replicas, left.stuck
		case d.busy:
			l.State = "busy"
		}
		all = append(all, l)
	}
	all = append(all, f.unreached(disks)...)
	slices.SortFunc(all, byServer)
	return all, nil
}

func byServer(a, b Lent) int {
	return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Disk, b.Disk))
}

// unreached lists the disks that servers lend and that are not among those that are there, by server.
func (f *Front) unreached(there map[cluster.DiskID]pooled) []Lent {
	all := []Lent{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, l := range f.listed {
		if _, here := there[id]; !here {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, byServer)
	return all
}
