package maps

import (
	"context"
	"encoding/binary"
	"fmt"

	"gleaner/fabric/disk"
	"gleaner/kv"
)

// A Block is what a vDisk has written in a block of 1 MiB.
type Block struct {
	Pile   []ExtentID // newest first
	Opaque bool       // the parent cannot be seen through it
	// Inherited is how many of the last extents other vDisks have made, which were merged into this one. The parent may still have
	// those as well, while it is being merged.
	Inherited int
}

// BlocksPerPart makes a part of the block map 1 GiB of a vDisk.
const BlocksPerPart = 1 << 10

func blockKey(id disk.VDiskID, block int64) kv.Key {
	part := binary.BigEndian.AppendUint64(nil, uint64(id))
	part = binary.BigEndian.AppendUint32(part, uint32(block/BlocksPerPart))
	return kv.Key{Part: part, Row: binary.BigEndian.AppendUint16(nil, uint16(block%BlocksPerPart))}
}

// Blocks reads the blocks that a vDisk itself has from first on, up to the end of
// their part of the map or to end. It gives where the next read goes on.
func (m *Maps) Blocks(ctx context.Context, id disk.VDiskID, first, end int64, visit func(block int64, b Block, version kv.Version) error) (next int64, err error) {
	next = min(end, (first/BlocksPerPart+1)*BlocksPerPart)
	from, to := blockKey(id, first), blockKey(id, next)
	r := kv.Range{Part: from.Part, From: from.Row, To: to.Row}
	if next%BlocksPerPart == 0 {
		r.To = nil
	}
	for record, err := range m.blocks.Scan(ctx, r) {
		if err != nil {
			return 0, fmt.Errorf("fabric: read blocks of vDisk %d: %w", id, err)
		}
		b, err := decodeBlock(record.Value)
		if err != nil || len(record.Key.Row) != 2 {
			return 0, fmt.Errorf("fabric: block %x of vDisk %d: %w", record.Key.Row, id, ErrDamaged)
		}
		block := first/BlocksPerPart*BlocksPerPart + int64(binary.BigEndian.Uint16(record.Key.Row))
		if err := visit(block, b, record.Version); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// SetBlock writes a block if it is of that version, zero for a new one.
func (m *Maps) SetBlock(ctx context.Context, id disk.VDiskID, block int64, b Block, old kv.Version) (kv.Version, error) {
	next, err := m.set(ctx, m.blocks, blockKey(id, block), old, encodeBlock(b))
	return next, wrap(fmt.Sprintf("write block %d of vDisk %d", block, id), err)
}

// DeleteBlock removes what a vDisk itself has of a block.
func (m *Maps) DeleteBlock(ctx context.Context, id disk.VDiskID, block int64, old kv.Version) error {
	return wrap(fmt.Sprintf("delete block %d of vDisk %d", block, id), m.writer.Delete(ctx, m.blocks, blockKey(id, block), old))
}

// EachBlock reads the blocks of all vDisks, in no order.
func (m *Maps) EachBlock(ctx context.Context, visit func(id disk.VDiskID, block int64, b Block) error) error {
	for r, err := range m.blocks.Scan(ctx, kv.Range{}) {
		if err != nil {
			return fmt.Errorf("fabric: read blocks: %w", err)
		}
		id, block, b, err := ReadBlock(&r)
		if err != nil {
			return err
		}
		if err := visit(id, block, b); err != nil {
			return err
		}
	}
	return nil
}

// ReadBlock reads a record of the block map.
func ReadBlock(r *kv.Record) (id disk.VDiskID, block int64, b Block, err error) {
	b, err = decodeBlock(r.Value)
	if err != nil || len(r.Key.Part) != 12 || len(r.Key.Row) != 2 {
		return 0, 0, b, fmt.Errorf("fabric: block %x of %x: %w", r.Key.Row, r.Key.Part, ErrDamaged)
	}
	part, row := int64(binary.BigEndian.Uint32(r.Key.Part[8:])), int64(binary.BigEndian.Uint16(r.Key.Row))
	return disk.VDiskID(binary.BigEndian.Uint64(r.Key.Part)), part*BlocksPerPart + row, b, nil
}
