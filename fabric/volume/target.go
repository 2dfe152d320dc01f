package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/kv"
)

// A target is a group that is made by packing.
type target struct {
	*liveGroup
	packing *packing
	image   []byte               // of all its extents
	extents []maps.LocatedExtent // that are to be in it
	places  []maps.Extent        // where
	on      []cluster.DiskID     // that have it
	made    kv.Version           // of its mark
	shards  [][]byte             // what each of those has, if it is coded
}

// take adds an extent that is to be in the group.
func (t *target) take(e maps.LocatedExtent, at maps.Extent) {
	t.extents, t.places = append(t.extents, e), append(t.places, at)
}

// fits reports whether the group has room for another extent of so many bytes.
func (t *target) fits(packed []byte) bool {
	room := int64(max(1, t.packing.form.Data)) * disk.GroupSize
	return int64(len(t.image)+len(packed)) <= room && len(t.extents) < group.MaxTenants
}

// wanted is how many disks the group is on.
func (t *target) wanted() int { return max(1, t.packing.form.Data) + t.packing.spare }

// length is how many bytes each of them has: whole slices if it is coded.
func (t *target) length() int64 {
	data := int64(t.packing.form.Data)
	if data == 0 {
		return int64(len(t.image))
	}
	stripe := data * disk.SliceSize
	return max(1, (int64(len(t.image))+stripe-1)/stripe) * disk.SliceSize
}

// needs is how many bytes the group takes on all disks.
func (t *target) needs() int64 { return blocksOf(t.length()) * disk.BlockSize * int64(t.wanted()) }

// make makes the group on its disks, synced and read back.
func (t *target) make(ctx context.Context) (err error) {
	if data := t.packing.form.Data; data > 0 {
		if t.shards, err = pack.Cut(t.image, data, t.packing.spare, t.length()); err != nil {
			return err
		}
	}
	t.mu.Lock()
	err = t.setMark(ctx, t.packing.vdisk, false, nil)
	t.made = t.mark
	t.mu.Unlock()
	if err != nil {
		return err
	}
	var errs []error
	t.on, errs = t.space.tryReplicas(ctx, t.liveGroup, t.packing.vdisk, t.wanted(), t.space.o.Reserve, nil)
	if len(t.on) < t.wanted() {
		return errors.Join(ErrNoTarget, errors.Join(errs...))
	}
	for i := range t.on {
		if err := t.fill(ctx, i); err != nil {
			return fmt.Errorf("disk %s: %w", t.on[i], err)
		}
	}
	return nil
}

// fill writes the bytes of a disk, syncs them and reads them back.
func (t *target) fill(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, t.space.o.Patience)
	defer cancel()
	d, err := t.space.pool.Disk(t.on[i]) // one for all: if it is opened again it may lack what was not synced
	if err != nil {
		return err
	}
	data := t.image
	if t.shards != nil {
		data = t.shards[i]
	}
	each := func(do func(offset int64, block []byte) error) error {
		for at := 0; at < len(data); at += disk.BlockSize {
			if err := do(int64(at), data[at:min(len(data), at+disk.BlockSize)]); err != nil {
				return err
			}
		}
		return nil
	}
	err = each(func(offset int64, block []byte) error {
		return d.Write(ctx, t.id, 1, t.packing.token, offset, block, false)
	})
	if err == nil {
		err = d.Sync(ctx)
	}
	if err != nil {
		return err
	}
	return each(func(offset int64, block []byte) error {
		got := make([]byte, len(block))
		if err := d.Read(ctx, t.id, 1, offset, got); err != nil {
			return err
		}
		if !bytes.Equal(got, block) {
			return fmt.Errorf("it has other bytes at %d than were written", offset)
		}
		return nil
	})
}

// record makes the group's record.
func (t *target) record(ctx context.Context) (err error) {
	form := t.packing.form
	t.rec = group.New(t.packing.vdisk, t.wanted(), t.on)
	t.rec.Level, t.rec.Data = uint8(form.Level), form.Data
	for i := range t.shards {
		t.rec.Length, t.rec.Shards = t.length(), append(t.rec.Shards, i)
	}
	for _, e := range t.extents {
		t.rec.Tenants = append(t.rec.Tenants, e.ID)
	}
	if t.version, err = t.space.maps.SetGroup(ctx, t.id, t.rec, kv.Version{}); err != nil {
		return err
	}
	t.loaded = true
	return t.unmark(ctx, t.packing.vdisk)
}
