package dataserver

import (
	"context"
	"encoding/json"
	"fmt"

	"gleaner/fabric/disk"
)

// remote is a disk at a data server.
type remote struct {
	*line
	opened uint64 // as it was opened when it was first seen; 0 for any
}

// ask sends a request, unless the disk was opened again.
func (r *remote) ask(ctx context.Context, h head, payload, into []byte) ([]byte, error) {
	link, err := r.same(ctx)
	if err != nil {
		return nil, err
	}
	return r.askLink(ctx, link, h, payload, into)
}

// same gives a link to the disk as it was first seen.
func (r *remote) same(ctx context.Context) (*link, error) {
	link, err := r.get(ctx)
	if err == nil && r.opened != 0 && link.identity.Opened != r.opened {
		return nil, r.error(ErrReopened)
	}
	return link, err
}

// tell is ask for requests with nothing but a head, that are answered with nothing.
func (r *remote) tell(ctx context.Context, h head) error {
	_, err := r.ask(ctx, h, nil, nil)
	return err
}

func (r *remote) Identity(ctx context.Context) (disk.Identity, error) {
	link, err := r.same(ctx)
	if err != nil {
		return disk.Identity{}, err
	}
	return link.identity, nil
}

func (r *remote) Read(ctx context.Context, group disk.GroupID, generation uint64, offset int64, buf []byte) error {
	if err := disk.Inside(offset, len(buf)); err != nil {
		return err
	}
	_, err := r.ask(ctx, head{op: opRead, group: group, generation: generation, offset: uint32(offset), count: uint32(len(buf))}, nil, buf)
	return err
}

func (r *remote) Write(ctx context.Context, group disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error {
	if err := disk.Inside(offset, len(data)); err != nil {
		return err
	}
	_, err := r.ask(ctx, head{op: opWrite, group: group, generation: generation, token: token, offset: uint32(offset), sync: sync}, data, nil)
	return err
}

// BeginWrite sends a small write, and gives what waits for the answer. It gives nil if that would take time, or fail, at once: Write is to be used then.
func (r *remote) BeginWrite(ctx context.Context, group disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) (wait func() error) {
	if len(data) > copyUpTo || disk.Inside(offset, len(data)) != nil {
		return nil
	}
	return r.begin(ctx, head{op: opWrite, group: group, generation: generation, token: token, offset: uint32(offset), sync: sync}, data)
}

// BeginSync is BeginWrite for Sync.
func (r *remote) BeginSync(ctx context.Context) (wait func() error) {
	return r.begin(ctx, head{op: opSync}, nil)
}

func (r *remote) begin(ctx context.Context, h head, payload []byte) (wait func() error) {
	link, _, err := r.look()
	if err != nil || link == nil || r.opened != 0 && link.identity.Opened != r.opened {
		return nil
	}
	answered := link.begin(ctx, h, payload)
	if answered == nil {
		return nil
	}
	return func() error { return r.named(ctx, answered()) }
}

func (r *remote) Sync(ctx context.Context) error { return r.tell(ctx, head{op: opSync}) }

func (r *remote) Salvage(ctx context.Context, group disk.GroupID, generation uint64, slice int, buf []byte) error {
	if slice < 0 || slice >= disk.SlicesPerGroup || len(buf) != disk.SliceSize {
		return fmt.Errorf("salvage slice %d: %w", slice, disk.ErrRange)
	}
	_, err := r.ask(ctx, head{op: opSalvage, group: group, generation: generation, offset: uint32(slice)}, nil, buf)
	return err
}

func (r *remote) Create(ctx context.Context, group disk.GroupID, vdisk disk.VDiskID, generation uint64) error {
	return r.tell(ctx, head{op: opCreate, group: group, vdisk: vdisk, generation: generation})
}

func (r *remote) Seal(ctx context.Context, group disk.GroupID, generation, token uint64) error {
	return r.tell(ctx, head{op: opSeal, group: group, generation: generation, token: token})
}

func (r *remote) Raise(ctx context.Context, group disk.GroupID, generation uint64) error {
	return r.tell(ctx, head{op: opRaise, group: group, generation: generation})
}

func (r *remote) Truncate(ctx context.Context, group disk.GroupID, generation uint64, blocks int) error {
	if blocks < 0 || blocks > disk.GroupSize/disk.BlockSize {
		return fmt.Errorf("truncate to %d blocks: %w", blocks, disk.ErrRange)
	}
	return r.tell(ctx, head{op: opTruncate, group: group, generation: generation, offset: uint32(blocks)})
}

func (r *remote) Remove(ctx context.Context, group disk.GroupID, generation uint64) error {
	return r.tell(ctx, head{op: opRemove, group: group, generation: generation})
}

func (r *remote) Fence(ctx context.Context, vdisk disk.VDiskID, token uint64) error {
	return r.tell(ctx, head{op: opFence, vdisk: vdisk, token: token})
}

func (r *remote) Stat(ctx context.Context, group disk.GroupID) (disk.Info, error) {
	data, err := r.ask(ctx, head{op: opStat, group: group}, nil, nil)
	if err != nil {
		return disk.Info{}, err
	}
	return decodeInfo(data)
}

func (r *remote) Written(ctx context.Context, group disk.GroupID, generation uint64) (disk.Mask, error) {
	data, err := r.ask(ctx, head{op: opWritten, group: group, generation: generation}, nil, nil)
	if err != nil {
		return disk.Mask{}, err
	}
	return decodeMask(data)
}

func (r *remote) Sums(ctx context.Context, group disk.GroupID, generation uint64) ([]disk.Sum, error) {
	data, err := r.ask(ctx, head{op: opSums, group: group, generation: generation}, nil, nil)
	if err != nil {
		return nil, err
	}
	return decodeSums(data)
}

func (r *remote) Verify(ctx context.Context, group disk.GroupID) ([]*disk.SliceError, error) {
	data, err := r.ask(ctx, head{op: opVerify, group: group}, nil, nil)
	if err != nil {
		return nil, err
	}
	return decodeFlaws(group, data)
}

// List has all groups told before it visits the first, so that a slow visitor holds up no request.
func (r *remote) List(ctx context.Context, visit func(disk.GroupID) error) error {
	data, err := r.ask(ctx, head{op: opList}, nil, nil)
	if err != nil {
		return err
	}
	groups, err := decodeGroups(data)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := visit(group); err != nil {
			return err
		}
	}
	return nil
}

// Copy has the server fetch from another server; from any other disk the replica is sent to it.
func (r *remote) Copy(ctx context.Context, group disk.GroupID, generation, token uint64, from Disk) error {
	h := head{op: opCopy, group: group, generation: generation, token: token}
	if there, ok := from.(*remote); ok {
		payload, err := json.Marshal(source{there.client.address, there.name})
		if err == nil {
			_, err = r.ask(ctx, h, payload, nil)
		}
		return err
	}
	_, buf, err := fetch(ctx, from, group, generation)
	if err != nil {
		return fmt.Errorf("copy group %s: %w: %w", group, ErrSource, err)
	}
	defer buf.Free()
	h.op = opPut
	_, err = r.ask(ctx, h, buf.Data, nil)
	return err
}
