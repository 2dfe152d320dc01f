package maps

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
)

// Each record begins with the format of its kind.
const (
	blockFormat  = 1
	extentFormat = 1
	groupFormat  = 1
	markFormat   = 1
	accessFormat = 1
)

// MaxPile is how many extents of its own a block may have.
const MaxPile = 255

func (e ExtentID) String() string { return fmt.Sprintf("%s/%d", e.Group, e.Quarter) }

func encodeBlock(b Block) []byte {
	out := []byte{blockFormat, flag(b.Opaque)}
	for _, e := range b.Pile {
		out = appendPlace(out, e.Group, e.Quarter)
	}
	return out
}

func decodeBlock(data []byte) (Block, error) {
	if len(data) < 2 || data[0] != blockFormat || data[1] > 1 || (len(data)-2)%placeBytes != 0 || (len(data)-2)/placeBytes > MaxPile {
		return Block{}, ErrDamaged
	}
	b := Block{Opaque: data[1] == 1}
	for data = data[2:]; len(data) > 0; data = data[placeBytes:] {
		id, quarter, err := place(data)
		if err != nil {
			return Block{}, err
		}
		b.Pile = append(b.Pile, ExtentID{id, quarter})
	}
	return b, nil
}

func encodeExtent(e Extent) []byte {
	return appendPlace([]byte{extentFormat}, e.Group, e.Quarter)
}

func decodeExtent(data []byte) (Extent, error) {
	if len(data) != 1+placeBytes || data[0] != extentFormat {
		return Extent{}, ErrDamaged
	}
	id, quarter, err := place(data[1:])
	return Extent{id, quarter}, err
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

func encodeGroup(g group.Group) []byte {
	out := []byte{groupFormat, flag(g.Dead), byte(g.Wanted), byte(len(g.Good))}
	out = binary.BigEndian.AppendUint64(out, uint64(g.VDisk))
	out = binary.BigEndian.AppendUint64(out, g.Generation)
	for _, d := range append(g.Good[:len(g.Good):len(g.Good)], g.Building) {
		out = append(append(out, byte(len(d))), d...)
	}
	return out
}

func decodeGroup(data []byte) (group.Group, error) {
	if len(data) < 20 || data[0] != groupFormat || data[1] > 1 {
		return group.Group{}, ErrDamaged
	}
	g := group.Group{Dead: data[1] == 1, Wanted: int(data[2]), VDisk: disk.VDiskID(binary.BigEndian.Uint64(data[4:])), Generation: binary.BigEndian.Uint64(data[12:])}
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
	if len(rest) > 0 {
		return group.Group{}, ErrDamaged
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
