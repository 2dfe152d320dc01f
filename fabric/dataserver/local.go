package dataserver

import (
	"context"
	"fmt"
	"sync"

	"gleaner/fabric/disk"
)

// A LocalDisk is a disk of this process, to be used here, served to others, or both.
type LocalDisk struct {
	disk *disk.Disk

	mu      sync.Mutex
	copying map[disk.GroupID]bool
}

// Local gives a disk of this process. There is one Local for each: it knows which groups are being copied to it.
func Local(d *disk.Disk) *LocalDisk {
	return &LocalDisk{disk: d, copying: map[disk.GroupID]bool{}}
}

func (l *LocalDisk) Identity(ctx context.Context) (disk.Identity, error) {
	id := l.disk.Identity()
	id.Salt = 0
	return id, ctx.Err()
}

func (l *LocalDisk) Read(ctx context.Context, group disk.GroupID, generation uint64, offset int64, buf []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Read(group, generation, offset, buf)
}

func (l *LocalDisk) Write(ctx context.Context, group disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Write(group, generation, token, offset, data, sync)
}

func (l *LocalDisk) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Sync()
}

func (l *LocalDisk) Salvage(ctx context.Context, group disk.GroupID, generation uint64, slice int, buf []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Salvage(group, generation, slice, buf)
}

func (l *LocalDisk) Create(ctx context.Context, group disk.GroupID, vdisk disk.VDiskID, generation uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Create(group, vdisk, generation)
}

func (l *LocalDisk) Seal(ctx context.Context, group disk.GroupID, generation, token uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Seal(group, generation, token)
}

func (l *LocalDisk) Raise(ctx context.Context, group disk.GroupID, generation uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Raise(group, generation)
}

func (l *LocalDisk) Truncate(ctx context.Context, group disk.GroupID, generation uint64, blocks int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Truncate(group, generation, blocks)
}

func (l *LocalDisk) Remove(ctx context.Context, group disk.GroupID, generation uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Remove(group, generation)
}

func (l *LocalDisk) Fence(ctx context.Context, vdisk disk.VDiskID, token uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.disk.Fence(vdisk, token)
}

func (l *LocalDisk) Stat(ctx context.Context, group disk.GroupID) (disk.Info, error) {
	if err := ctx.Err(); err != nil {
		return disk.Info{}, err
	}
	return l.disk.Stat(group)
}

func (l *LocalDisk) Written(ctx context.Context, group disk.GroupID, generation uint64) (disk.Mask, error) {
	if err := ctx.Err(); err != nil {
		return disk.Mask{}, err
	}
	return l.disk.Written(group, generation)
}

func (l *LocalDisk) Sums(ctx context.Context, group disk.GroupID, generation uint64) ([]disk.Sum, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return l.disk.Sums(group, generation)
}

func (l *LocalDisk) Verify(ctx context.Context, group disk.GroupID) ([]*disk.SliceError, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return l.disk.Verify(group)
}

func (l *LocalDisk) List(ctx context.Context, visit func(disk.GroupID) error) error {
	return l.disk.List(func(group disk.GroupID) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return visit(group)
	})
}

func (l *LocalDisk) Copy(ctx context.Context, group disk.GroupID, generation, token uint64, from Disk) error {
	r, buf, err := fetch(ctx, from, group, generation)
	if err != nil {
		return fmt.Errorf("copy group %s: %w: %w", group, ErrSource, err)
	}
	defer buf.Free()
	if err := l.put(r, token); err != nil {
		return fmt.Errorf("copy group %s: %w", group, err)
	}
	return nil
}
