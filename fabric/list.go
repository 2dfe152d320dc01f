package fabric

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/volume"
	"gleaner/kv"
)

// An Info is what there is to say of a vDisk or a snapshot in a line.
type Info struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	Used     int64     `json:"used"`     // bytes of the blocks it has itself, on one replica
	Replicas int       `json:"replicas"` // wanted, each on another server
	Servers  int       `json:"servers"`  // that can hold some, now
	Parent   string    `json:"parent"`   // what it reads through, with "(removed)" behind the name if it was; empty if nothing
	Snapshot bool      `json:"snapshot"`
	Exported bool      `json:"exported"` // somebody uses it now
	Created  time.Time `json:"created"`
}

// List describes all vDisks and snapshots, by name.
func (f *Front) List(ctx context.Context) ([]Info, error) {
	used := map[disk.VDiskID]int64{}
	err := f.maps.EachBlock(ctx, func(id disk.VDiskID, _ int64, b maps.Block) error {
		used[id] += int64(len(b.Pile)) * disk.BlockSize
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := []Info{}
	for v, err := range f.maps.Names(ctx) {
		if err != nil {
			return nil, err
		}
		info, err := f.info(ctx, v)
		if err != nil {
			return nil, err
		}
		info.Used = used[v.ID]
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (f *Front) info(ctx context.Context, v maps.VDisk) (Info, error) {
	info := Info{Name: v.Name, Size: v.Size, Replicas: v.Replicas, Servers: f.Servers(), Snapshot: v.Snapshot, Created: v.Created}
	f.mu.Lock()
	info.Exported = f.opened[v.Name] != nil
	f.mu.Unlock()
	if v.Parent == 0 {
		return info, nil
	}
	parent, _, err := f.maps.VDisk(ctx, v.Parent)
	if err == nil {
		info.Parent = called(parent)
	}
	return info, err
}

// Removed follows the name of a vDisk that was removed, and is kept for what reads through it.
const Removed = " (removed)"

// called is the name of a vDisk that others are read through. Of one that was removed it may be another's by now.
func called(v maps.VDisk) string {
	if v.Removed {
		return v.Name + Removed
	}
	return v.Name
}

// A Stat is all there is to say of a vDisk or a snapshot.
type Stat struct {
	Info
	Chain     []string       `json:"chain"`            // what it is read through, nearest first
	Blocks    int            `json:"blocks"`           // that it has itself
	Piled     int            `json:"piled"`            // of them, made of more than one extent
	Groups    int            `json:"groups"`           // that hold them
	States    map[string]int `json:"states"`           // of the groups; "out of reach" if no replica can be read now, "damaged" if those that can have lost some of it
	Have      map[int]int    `json:"good_replicas"`    // how many groups have so many good replicas
	Tiers     map[string]int `json:"replicas_by_tier"` // and which tier those are on; "away" if the disk cannot be reached
	Placement Placement      `json:"placement"`

	Bytes       map[string]int64 `json:"bytes_by_tier"`         // of its blocks, as they are kept, on all replicas
	LastRead    time.Time        `json:"last_read,omitzero"`    // to ten seconds
	LastWritten time.Time        `json:"last_written,omitzero"` // the same
}

// Stat describes one vDisk or snapshot.
func (f *Front) Stat(ctx context.Context, name string) (Stat, error) {
	v, err := f.maps.Find(ctx, name)
	if err != nil {
		return Stat{}, named(err, "name", name)
	}
	s := Stat{Chain: []string{}, States: map[string]int{}, Have: map[int]int{}, Tiers: map[string]int{}, Placement: newPlacement(f.pool.rules()), Bytes: map[string]int64{}}
	if s.Info, err = f.info(ctx, v); err != nil {
		return Stat{}, err
	}
	for up := v.Parent; up != 0; {
		parent, _, err := f.maps.VDisk(ctx, up)
		if err != nil {
			return Stat{}, err
		}
		s.Chain, up = append(s.Chain, called(parent)), parent.Parent
	}
	groups := map[disk.GroupID]int64{} // bytes of the vDisk's that they hold
	count := func(_ int64, b maps.Block, _ kv.Version) error {
		s.Blocks++
		s.Used += int64(len(b.Pile)) * disk.BlockSize
		if len(b.Pile) > 1 {
			s.Piled++
		}
		for _, e := range b.Pile {
			at, _, err := f.maps.Extent(ctx, e)
			switch {
			case errors.Is(err, maps.ErrNotFound): // removed meanwhile
			case err != nil:
				return err
			case at.Packed != nil:
				groups[at.Group] += at.Packed.Index.Length()
			default:
				groups[at.Group] += disk.BlockSize
			}
		}
		return nil
	}
	end := (v.Size + disk.BlockSize - 1) / disk.BlockSize
	for next := int64(0); next < end; {
		if next, err = f.maps.Blocks(ctx, v.ID, next, end, count); err != nil {
			return Stat{}, err
		}
	}
	for id, bytes := range groups {
		if err := f.countGroup(ctx, id, bytes, &s); err != nil {
			return Stat{}, err
		}
	}
	return s, nil
}

func (f *Front) countGroup(ctx context.Context, id disk.GroupID, bytes int64, s *Stat) error {
	g, _, err := f.maps.Group(ctx, id)
	if errors.Is(err, maps.ErrNotFound) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	s.Groups++
	state, damaged := OutOfReach, 0
	for _, d := range g.Good {
		tier := f.pool.tierOf(d)
		s.Tiers[tier]++
		s.Bytes[tier] += bytes / int64(g.Needs()) // of a coded group each disk has a part
		if tier != away {
			state = g.State().String()
		}
		if f.damagedNow(ctx, id, d) {
			damaged++
		}
	}
	if good := len(g.Good) - damaged; damaged > 0 && good < g.Needs() {
		state = Damaged
	}
	s.Have[len(g.Good)-damaged]++
	s.States[state]++
	s.Placement.add(f.pool.quality(g.Good))
	used, err := f.space.Access(ctx, id)
	if err != nil {
		return err
	}
	s.LastRead = later(s.LastRead, used.Read.Time())
	s.LastWritten = later(s.LastWritten, used.Written.Time())
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// What Stat calls a replica whose disk cannot be reached, a group that has no other, and one that lost something.
const (
	away       = "away"
	OutOfReach = "out of reach"
	Damaged    = "damaged"
)

func (p *pool) tierOf(id cluster.DiskID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, ok := p.disks[id]; ok {
		return string(d.tier)
	}
	return away
}

// piece is how much is imported or dumped at once.
const piece = 4 << 20

// Import writes all of r to a vDisk, which is as large or larger. Zeros are not written to what is zeros already. progress is told of the
// bytes done.
func (f *Front) Import(ctx context.Context, name string, r io.Reader, progress func(int64)) error {
	return f.with(ctx, name, func(v *volume.Volume) error {
		buf := make([]byte, piece)
		for offset := int64(0); ; {
			n, err := io.ReadFull(r, buf)
			if n > 0 {
				if err := put(ctx, v, buf[:n], offset); err != nil {
					return err
				}
				offset += int64(n)
				progress(offset)
			}
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				return v.Flush(ctx)
			case err != nil:
				return err
			}
		}
	})
}

func put(ctx context.Context, v *volume.Volume, p []byte, offset int64) error {
	for len(p) > 0 {
		n := min(int64(len(p)), disk.BlockSize-offset%disk.BlockSize)
		var err error
		if allZeros(p[:n]) {
			err = v.Zero(ctx, offset, n, false, false)
		} else {
			err = v.WriteAt(ctx, p[:n], offset, false)
		}
		if err != nil {
			return err
		}
		p, offset = p[n:], offset+n
	}
	return nil
}

func allZeros(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// Dump calls write with all bytes of a vDisk or snapshot that may not be zeros, in order, and gives its size.
func (f *Front) Dump(ctx context.Context, name string, write func(p []byte, offset int64) error) (size int64, err error) {
	err = f.with(ctx, name, func(v *volume.Volume) error {
		size = v.Size()
		buf := make([]byte, piece)
		for offset := int64(0); offset < size; {
			runs, err := v.Status(ctx, offset, size-offset, 1)
			if err != nil {
				return err
			}
			n := runs[0].Length
			if runs[0].Stored {
				n = min(n, piece)
				if err := v.ReadAt(ctx, buf[:n], offset); err != nil {
					return err
				}
				if err := write(buf[:n], offset); err != nil {
					return err
				}
			}
			offset += n
		}
		return nil
	})
	return size, err
}
