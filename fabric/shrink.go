package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/volume"
	"gleaner/input"
)

// A Shrunk says what Shrink did.
type Shrunk struct {
	Name   string `json:"name"`
	Before int64  `json:"before"` // bytes that the groups took which were packed, on all disks
	After  int64  `json:"after"`  // bytes that those take which were made
	Shared int    `json:"shared"` // extents that share their bytes with equal ones now
}

// CheckForm says what is wrong with how a vDisk is to be packed.
func CheckForm(level string, shards int) (volume.Form, error) {
	l, known := pack.ParseLevel(level)
	if !known {
		return volume.Form{}, input.Fieldf("level", "%q is none of %s", level, strings.Join(pack.Levels[:], ", "))
	}
	if shards != 0 && (shards < 2 || shards > volume.MaxData) {
		return volume.Form{}, input.Fieldf("shards", "%d is not 2 to %d, or 0 to keep whole replicas", shards, volume.MaxData)
	}
	return volume.Form{Level: l, Data: shards}, nil
}

// Shrink packs what a vDisk itself has, cold or not, and has it share what is equal elsewhere. What a snapshot of it has is packed by its own name. progress is told of the groups done, and of how many there are.
func (f *Front) Shrink(ctx context.Context, name string, form volume.Form, progress func(done, of int)) (Shrunk, error) {
	v, err := f.maps.Find(ctx, name)
	if err != nil {
		return Shrunk{}, named(err, "name", name)
	}
	s := Shrunk{Name: name}
	if err := f.packAll(ctx, v.ID, form, &s, progress); err != nil {
		return s, err
	}
	if err := f.share(ctx, v.ID, &s); err != nil || s.Shared == 0 {
		return s, err
	}
	return s, f.packAll(ctx, v.ID, form, &s, func(int, int) {}) // without what is shared
}

// packAll packs the groups of a vDisk.
func (f *Front) packAll(ctx context.Context, id disk.VDiskID, form volume.Form, s *Shrunk, progress func(done, of int)) error {
	ids, err := f.groupsOf(ctx, id)
	if err != nil {
		return err
	}
	done := 0
	for some := range slices.Chunk(ids, volume.MaxPacked) {
		saving, err := f.space.Pack(ctx, some, form)
		switch {
		case errors.Is(err, volume.ErrNoTarget) && form.Data > 0:
			return fmt.Errorf("%d shards and their parity need a server each that has room: %w", form.Data, err)
		case err != nil && !errors.Is(err, volume.ErrMoot):
			return err
		}
		s.Before, s.After = s.Before+saving.Before, s.After+saving.After
		done += len(some)
		progress(done, len(ids))
	}
	return nil
}

func (f *Front) groupsOf(ctx context.Context, id disk.VDiskID) (ids []disk.GroupID, err error) {
	for g, err := range f.maps.Groups(ctx) {
		if err != nil {
			return nil, err
		}
		if g.VDisk == id && !g.Dead {
			ids = append(ids, g.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// share has packed extents of a vDisk's groups share the bytes of equal ones in groups of others.
func (f *Front) share(ctx context.Context, id disk.VDiskID, s *Shrunk) error {
	ids, err := f.groupsOf(ctx, id)
	if err != nil {
		return err
	}
	mine, elsewhere := map[pack.Print][]maps.ExtentID{}, map[pack.Print][]maps.ExtentID{}
	err = f.maps.EachExtent(ctx, func(e maps.ExtentID, at maps.Extent) error {
		if at.Packed == nil {
			return nil
		}
		in := elsewhere
		if _, own := slices.BinarySearch(ids, at.Group); own {
			in = mine
		}
		in[at.Packed.Print] = append(in[at.Packed.Print], e)
		return nil
	})
	if err != nil {
		return err
	}
	for print, extents := range mine {
		for _, e := range extents {
			shared, err := f.shareOne(ctx, elsewhere[print], e)
			if err != nil {
				return err
			}
			s.Shared += shared
		}
	}
	return nil
}

// shareOne has an extent share the bytes of the first of others that allows it.
func (f *Front) shareOne(ctx context.Context, others []maps.ExtentID, e maps.ExtentID) (shared int, err error) {
	for _, keep := range others {
		if err := f.space.Dedup(ctx, keep, e); err == nil {
			return 1, nil
		} else if !errors.Is(err, volume.ErrMoot) {
			return 0, err
		}
	}
	return 0, nil
}
