package dataserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"gleaner/fabric/conn"
	"gleaner/fabric/disk"
)

// A replica is all of a group, to be written elsewhere.
type replica struct {
	group      disk.GroupID
	generation uint64
	vdisk      disk.VDiskID
	sealed     bool
	sums       []disk.Sum
	data       []byte // the slices that were written, in order
}

// The payload of a put: vDisk, whether it is sealed, sums, slices.
const (
	putSums = 16
	putData = putSums + disk.SlicesPerGroup*sumBytes
)

// fetch reads a replica into a buffer, as the payload of a put. It is of the point in time
// at which its sums were asked for.
func fetch(ctx context.Context, from Disk, group disk.GroupID, generation uint64) (replica, *conn.Buffer, error) {
	info, err := from.Stat(ctx, group)
	if err != nil {
		return replica{}, nil, err
	}
	sums, err := from.Sums(ctx, group, generation)
	if err != nil {
		return replica{}, nil, err
	}
	r := replica{group: group, generation: generation, vdisk: info.VDisk, sealed: info.Sealed, sums: sums}
	written := 0
	for slice, s := range sums {
		if s.Condition != 0 {
			return replica{}, nil, &disk.SliceError{Group: group, Slice: slice, Condition: s.Condition}
		}
		written += int(flag(s.Written))
	}
	buf := conn.TakeBuffer(putData + written*disk.SliceSize)
	binary.LittleEndian.PutUint64(buf.Data, uint64(r.vdisk))
	binary.LittleEndian.PutUint64(buf.Data[8:], uint64(flag(r.sealed)))
	encodeSums(buf.Data[putSums:putSums], sums)
	r.data = buf.Data[putData:]
	err = r.runs(func(offset int64, part []byte) error { return from.Read(ctx, group, generation, offset, part) })
	if err == nil {
		err = r.check()
	}
	if err != nil {
		buf.Free()
		return replica{}, nil, err
	}
	return r, buf, nil
}

// decodePut reads the payload of a put. The replica is in it.
func decodePut(h head, payload []byte) (replica, error) {
	if len(payload) < putData {
		return replica{}, errMalformed
	}
	sums, err := decodeSums(payload[putSums:putData])
	if err != nil {
		return replica{}, err
	}
	r := replica{group: h.group, generation: h.generation, vdisk: disk.VDiskID(binary.LittleEndian.Uint64(payload)),
		sealed: binary.LittleEndian.Uint64(payload[8:]) == 1, sums: sums, data: payload[putData:]}
	return r, r.check()
}

// check compares the slices with their sums.
func (r replica) check() error {
	left := r.data
	for slice, s := range r.sums {
		if !s.Written {
			continue
		}
		if len(left) < disk.SliceSize || s.Condition != 0 {
			return errMalformed
		}
		if disk.CRC32C(left[:disk.SliceSize]) != s.CRC32C {
			return fmt.Errorf("slice %d of group %s: %w", slice, r.group, ErrChanged)
		}
		left = left[disk.SliceSize:]
	}
	if len(left) > 0 {
		return errMalformed
	}
	return nil
}

// runs calls do for each run of slices that were written, of a block at most, with its part of the data.
func (r replica) runs(do func(offset int64, part []byte) error) error {
	left := r.data
	for slice := 0; slice < len(r.sums); {
		run := 0
		for slice+run < len(r.sums) && r.sums[slice+run].Written && run < disk.BlockSize/disk.SliceSize {
			run++
		}
		if run == 0 {
			slice++
			continue
		}
		part := left[:run*disk.SliceSize]
		if err := do(int64(slice)*disk.SliceSize, part); err != nil {
			return err
		}
		slice, left = slice+run, left[len(part):]
	}
	return nil
}

// put writes a replica. The last thing that it does makes it one.
func (l *LocalDisk) put(r replica, token uint64) error {
	if !l.claim(r.group) {
		return fmt.Errorf("group %s is being copied: %w", r.group, disk.ErrExists)
	}
	defer l.unclaim(r.group)
	if err := l.disk.Fence(r.vdisk, token); err != nil { // also where no slice was written
		return err
	}
	there, err := l.makeRoom(r)
	if there || err != nil {
		return err
	}
	if err := l.disk.Create(r.group, r.vdisk, disk.Unfinished); err != nil {
		return err
	}
	if err := l.fill(r, token); err != nil {
		_ = l.disk.Remove(r.group, disk.Unfinished) // what is left is no replica
		return err
	}
	return nil
}

func (l *LocalDisk) fill(r replica, token uint64) error {
	err := r.runs(func(offset int64, part []byte) error {
		return l.disk.Write(r.group, disk.Unfinished, token, offset, part, false)
	})
	if err != nil {
		return err
	}
	if r.sealed {
		err = l.disk.Seal(r.group, disk.Unfinished, token) // syncs first
	} else {
		err = l.disk.Sync()
	}
	if err != nil {
		return err
	}
	return l.disk.Finish(r.group, r.generation)
}

// makeRoom removes what an unfinished copy left, and says whether the replica is there already.
func (l *LocalDisk) makeRoom(r replica) (there bool, err error) {
	info, err := l.disk.Stat(r.group)
	switch {
	case errors.Is(err, disk.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case info.Generation == disk.Unfinished:
		return false, l.disk.Remove(r.group, disk.Unfinished)
	case info.Generation == r.generation && info.VDisk == r.vdisk && info.Sealed == r.sealed:
		sums, err := l.disk.Sums(r.group, r.generation)
		if err != nil || slices.Equal(sums, r.sums) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("group %s: %w", r.group, disk.ErrExists)
}

// claim keeps others from copying a group to this disk.
func (l *LocalDisk) claim(group disk.GroupID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.copying[group] {
		return false
	}
	l.copying[group] = true
	return true
}

func (l *LocalDisk) unclaim(group disk.GroupID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.copying, group)
}
