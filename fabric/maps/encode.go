package maps

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/pack"
)

// Each record begins with the format of its kind.
const (
	blockFormat  = 1
	extentFormat = 1
	packedExtent = 2
	groupFormat  = 1
	packedGroup  = 2
	markFormat   = 1
	accessFormat = 1
)

// MaxPile is how many extents of its own a block may have.
const MaxPile = 255

// Flags of a block.
const (
	opaque    = 1
	inherited = 2
)

func encodeBlock(b Block) []byte {
	out := []byte{blockFormat, flag(b.Opaque) * opaque}
	if b.Inherited > 0 {
		out[1] |= inherited
		out = append(out, byte(b.Inherited))
	}
	for _, e := range b.Pile {
		out = appendPlace(out, e.Group, e.Quarter)
	}
	return out
}

func decodeBlock(data []byte) (Block, error) {
	if len(data) < 2 || data[0] != blockFormat || data[1] > opaque|inherited {
		return Block{}, ErrDamaged
	}
	b, has := Block{Opaque: data[1]&opaque != 0}, data[1]&inherited != 0
	if data = data[2:]; has && len(data) > 0 {
		b.Inherited, data = int(data[0]), data[1:]
	}
	if n := len(data) / placeBytes; len(data)%placeBytes != 0 || n > MaxPile || b.Inherited > n || has != (b.Inherited > 0) {
		return Block{}, ErrDamaged
	}
	for ; len(data) > 0; data = data[placeBytes:] {
		id, quarter, err := place(data)
		if err != nil {
			return Block{}, err
		}
		b.Pile = append(b.Pile, ExtentID{Group: id, Quarter: quarter})
	}
	return b, nil
}

func encodeExtent(e Extent) []byte {
	if e.Packed == nil {
		return appendPlace([]byte{extentFormat}, e.Group, e.Quarter)
	}
	out := binary.BigEndian.AppendUint64([]byte{packedExtent}, uint64(e.Group))
	out = binary.BigEndian.AppendUint32(out, uint32(e.Packed.Offset))
	return e.Packed.Index.Append(append(out, e.Packed.Print[:]...))
}

// packedBytes is the length of the record of a packed extent.
const packedBytes = 1 + 8 + 4 + len(pack.Print{}) + pack.IndexBytes

func decodeExtent(data []byte) (Extent, error) {
	switch {
	case len(data) == 1+placeBytes && data[0] == extentFormat:
		id, quarter, err := place(data[1:])
		return Extent{Group: id, Quarter: quarter}, err
	case len(data) == packedBytes && data[0] == packedExtent:
		p := &Packed{Offset: int64(binary.BigEndian.Uint32(data[9:])), Print: pack.Print(data[13:])}
		var err error
		if p.Index, err = pack.ReadIndex(data[13+len(p.Print):]); err != nil {
			return Extent{}, ErrDamaged
		}
		return Extent{Group: disk.GroupID(binary.BigEndian.Uint64(data[1:])), Packed: p}, nil
	}
	return Extent{}, ErrDamaged
}

// placeBytes is the length of a group and a quarter of it.
const placeBytes = 9

func appendPlace(out []byte, id disk.GroupID, quarter uint8) []byte {
	return append(binary.BigEndian.AppendUint64(out, uint64(id)), quarter)
}

func place(data []byte) (disk.GroupID, uint8, error) {
	if data[8] >= ExtentsPerGroup {
		return 0, 0, ErrDamaged
	}
	return disk.GroupID(binary.BigEndian.Uint64(data)), data[8], nil
}

// mostCut is how many blocks of a group may be cut off.
const mostCut = ExtentsPerGroup - 1

func encodeGroup(g group.Group) []byte {
	format := byte(groupFormat)
	if g.Packed() {
		format = packedGroup
	}
	out := []byte{format, flag(g.Dead) | byte(g.Cut)<<1, byte(g.Wanted), byte(len(g.Good))}
	out = binary.BigEndian.AppendUint64(out, uint64(g.VDisk))
	out = binary.BigEndian.AppendUint64(out, g.Generation)
	for _, d := range append(g.Good[:len(g.Good):len(g.Good)], g.Building) {
		out = append(append(out, byte(len(d))), d...)
	}
	if g.Packed() {
		out = appendPacked(out, g)
	}
	return out
}

// appendPacked adds what a packed group has beside the others.
func appendPacked(out []byte, g group.Group) []byte {
	out = append(out, g.Level, byte(g.Data))
	out = binary.BigEndian.AppendUint32(out, uint32(g.Length))
	for _, shard := range g.Shards {
		out = append(out, byte(shard))
	}
	for _, e := range g.Tenants {
		out = appendPlace(out, e.Group, e.Quarter)
	}
	return out
}

func decodeGroup(data []byte) (group.Group, error) {
	if len(data) < 20 || data[0] != groupFormat && data[0] != packedGroup || data[1] > 1|mostCut<<1 || data[0] == packedGroup && data[1] > 1 {
		return group.Group{}, ErrDamaged
	}
	g := group.Group{Dead: data[1]&1 != 0, Cut: int(data[1] >> 1), Wanted: int(data[2]), VDisk: disk.VDiskID(binary.BigEndian.Uint64(data[4:])), Generation: binary.BigEndian.Uint64(data[12:])}
	good, rest := int(data[3]), data[20:]
	for i := range good + 1 {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return group.Group{}, ErrDamaged
		}
		var d cluster.DiskID
		d, rest = cluster.DiskID(rest[1:1+int(rest[0])]), rest[1+int(rest[0]):]
		if i < good {
			g.Good = append(g.Good, d)
		} else {
			g.Building = d
		}
	}
	if data[0] == packedGroup {
		return readPacked(g, rest)
	}
	if len(rest) > 0 {
		return group.Group{}, ErrDamaged
	}
	return g, nil
}

// readPacked reads what appendPacked wrote.
func readPacked(g group.Group, data []byte) (group.Group, error) {
	if len(data) < 6 || pack.Level(data[0]) < pack.Fast || pack.Level(data[0]) > pack.Best || int(data[1]) > g.Wanted {
		return group.Group{}, ErrDamaged
	}
	g.Level, g.Data, g.Length = data[0], int(data[1]), int64(binary.BigEndian.Uint32(data[2:]))
	if data = data[6:]; g.Coded() {
		if len(data) < len(g.Good) || g.Length == 0 {
			return group.Group{}, ErrDamaged
		}
		for i, shard := range data[:len(g.Good)] {
			if int(shard) >= g.Wanted || bytes.IndexByte(data, shard) < i {
				return group.Group{}, ErrDamaged
			}
			g.Shards = append(g.Shards, int(shard))
		}
		data = data[len(g.Good):]
	}
	if len(data) == 0 || len(data)%placeBytes != 0 || len(data)/placeBytes > group.MaxTenants {
		return group.Group{}, ErrDamaged
	}
	for ; len(data) > 0; data = data[placeBytes:] {
		id, quarter, err := place(data)
		if err != nil {
			return group.Group{}, err
		}
		g.Tenants = append(g.Tenants, ExtentID{Group: id, Quarter: quarter})
	}
	return g, nil
}

// encodeMark writes the disks in the order of their names.
func encodeMark(m Mark) []byte {
	out := []byte{markFormat, flag(m.Synced)}
	for _, d := range slices.Sorted(maps.Keys(m.Opened)) {
		out = append(append(out, byte(len(d))), d...)
		out = binary.BigEndian.AppendUint64(out, m.Opened[d])
	}
	return out
}

func decodeMark(id disk.GroupID, data []byte) (Mark, error) {
	if len(data) < 2 || data[0] != markFormat || data[1] > 1 {
		return Mark{}, ErrDamaged
	}
	m := Mark{Group: id, Synced: data[1] == 1, Opened: map[cluster.DiskID]uint64{}}
	for data = data[2:]; len(data) > 0; {
		n := 1 + int(data[0])
		if len(data) < n+8 {
			return Mark{}, ErrDamaged
		}
		m.Opened[cluster.DiskID(data[1:n])] = binary.BigEndian.Uint64(data[n:])
		data = data[n+8:]
	}
	return m, nil
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
