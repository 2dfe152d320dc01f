package dataserver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"gleaner/fabric/disk"
)

// What a request asks for.
type op uint8

const (
	opRead op = iota + 1
	opWrite
	opSync
	opSalvage
	opCreate
	opSeal
	opRaise
	opRemove
	opFence
	opStat
	opWritten
	opSums
	opVerify
	opList
	opPut
	opCopy
	opBeat
	opTruncate
	ops // how many there are, and one
)

// A head begins a request. Which fields count depends on the op.
type head struct {
	op         op
	sync       bool // of a write: make it durable
	number     uint64
	group      disk.GroupID
	generation uint64
	token      uint64
	vdisk      disk.VDiskID
	offset     uint32 // of a read or write; the slice of a salvage; the blocks that a truncate leaves
	count      uint32 // bytes of a read
	payload    int    // bytes behind the head
}

const (
	headBytes   = 56
	answerBytes = 16
	mostCopy    = 4 << 10                  // payload of a copy
	mostPut     = putData + disk.GroupSize // payload of a put
	mostAnswer  = disk.GroupSize           // payload of an answer
)

func (h head) encode(out []byte) []byte {
	le := binary.LittleEndian
	out = le.AppendUint32(out, uint32(h.payload))
	flags := byte(0)
	if h.sync {
		flags = 1
	}
	out = append(out, byte(h.op), flags, 0, 0)
	out = le.AppendUint64(out, h.number)
	out = le.AppendUint64(out, uint64(h.group))
	out = le.AppendUint64(out, h.generation)
	out = le.AppendUint64(out, h.token)
	out = le.AppendUint64(out, uint64(h.vdisk))
	out = le.AppendUint32(out, h.offset)
	return le.AppendUint32(out, h.count)
}

// decodeHead reads the head of a request, which has headBytes, and refuses what no client sends.
func decodeHead(data []byte) (head, error) {
	le := binary.LittleEndian
	h := head{
		payload:    int(le.Uint32(data)),
		op:         op(data[4]),
		sync:       data[5] == 1,
		number:     le.Uint64(data[8:]),
		group:      disk.GroupID(le.Uint64(data[16:])),
		generation: le.Uint64(data[24:]),
		token:      le.Uint64(data[32:]),
		vdisk:      disk.VDiskID(le.Uint64(data[40:])),
		offset:     le.Uint32(data[48:]),
		count:      le.Uint32(data[52:]),
	}
	switch {
	case h.op == 0 || h.op >= ops || data[5] > 1 || data[6] != 0 || data[7] != 0:
		return h, fmt.Errorf("a request begins with % x", data[:8])
	case h.payload > h.op.mostPayload():
		return h, fmt.Errorf("%d bytes come with a request of kind %d", h.payload, h.op)
	case h.count > disk.GroupSize:
		return h, fmt.Errorf("a request for %d bytes", h.count)
	}
	return h, nil
}

func (o op) mostPayload() int {
	switch o {
	case opWrite:
		return disk.GroupSize
	case opPut:
		return mostPut
	case opCopy:
		return mostCopy
	}
	return 0
}

// What an answer is.
const (
	statusDone  = 0 // the request is done
	statusMore  = 1 // another answer follows
	statusError = 2 // the payload is an error
)

type answer struct {
	status  byte
	number  uint64
	payload int // bytes behind it
}

func (a answer) encode(out []byte) []byte {
	out = binary.LittleEndian.AppendUint32(out, uint32(a.payload))
	out = append(out, a.status, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(out, a.number)
}

func decodeAnswer(data []byte) (answer, error) {
	a := answer{payload: int(binary.LittleEndian.Uint32(data)), status: data[4], number: binary.LittleEndian.Uint64(data[8:])}
	if a.status > statusError || data[5] != 0 || data[6] != 0 || data[7] != 0 || a.payload > mostAnswer {
		return a, fmt.Errorf("an answer begins with % x", data[:8])
	}
	return a, nil
}

var errMalformed = errors.New("an answer cannot be read")

const sumBytes = 8

func encodeSums(out []byte, sums []disk.Sum) []byte {
	for _, s := range sums {
		out = binary.LittleEndian.AppendUint32(out, s.CRC32C)
		written := byte(0)
		if s.Written {
			written = 1
		}
		out = append(out, written, byte(s.Condition), 0, 0)
	}
	return out
}

// decodeSums reads the sums of a whole group.
func decodeSums(data []byte) ([]disk.Sum, error) {
	if len(data) != disk.SlicesPerGroup*sumBytes {
		return nil, errMalformed
	}
	sums := make([]disk.Sum, disk.SlicesPerGroup)
	for i := range sums {
		at := data[i*sumBytes:]
		if at[4] > 1 || at[5] > byte(disk.Torn) {
			return nil, errMalformed
		}
		sums[i] = disk.Sum{Written: at[4] == 1, Condition: disk.Condition(at[5]), CRC32C: binary.LittleEndian.Uint32(at)}
	}
	return sums, nil
}

func encodeMask(m disk.Mask) []byte {
	var out []byte
	for _, word := range m {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return out
}

func decodeMask(data []byte) (disk.Mask, error) {
	var m disk.Mask
	if len(data) != 8*len(m) {
		return m, errMalformed
	}
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	return m, nil
}

const infoBytes = 32

func encodeInfo(info disk.Info) []byte {
	le := binary.LittleEndian
	out := le.AppendUint64(nil, uint64(info.VDisk))
	out = le.AppendUint64(out, info.Generation)
	out = le.AppendUint64(out, uint64(info.Allocated))
	out = le.AppendUint32(out, uint32(info.Written))
	return le.AppendUint32(out, flag(info.Sealed))
}

func flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}

func decodeInfo(data []byte) (disk.Info, error) {
	if len(data) != infoBytes {
		return disk.Info{}, errMalformed
	}
	le := binary.LittleEndian
	return disk.Info{VDisk: disk.VDiskID(le.Uint64(data)), Generation: le.Uint64(data[8:]), Allocated: int64(le.Uint64(data[16:])),
		Written: int(le.Uint32(data[24:])), Sealed: le.Uint32(data[28:]) == 1}, nil
}

const flawBytes = 8

// encodeFlaws are what Verify found in a group.
func encodeFlaws(found []*disk.SliceError) []byte {
	var out []byte
	for _, e := range found {
		out = binary.LittleEndian.AppendUint32(out, uint32(int32(e.Slice)))
		out = binary.LittleEndian.AppendUint32(out, uint32(e.Condition))
	}
	return out
}

func decodeFlaws(group disk.GroupID, data []byte) ([]*disk.SliceError, error) {
	if len(data)%flawBytes != 0 {
		return nil, errMalformed
	}
	var found []*disk.SliceError
	for ; len(data) > 0; data = data[flawBytes:] {
		slice, condition := int32(binary.LittleEndian.Uint32(data)), binary.LittleEndian.Uint32(data[4:])
		found = append(found, &disk.SliceError{Group: group, Slice: int(slice), Condition: disk.Condition(condition)})
	}
	return found, nil
}

func decodeGroups(data []byte) ([]disk.GroupID, error) {
	if len(data)%8 != 0 {
		return nil, errMalformed
	}
	groups := make([]disk.GroupID, 0, len(data)/8)
	for ; len(data) > 0; data = data[8:] {
		groups = append(groups, disk.GroupID(binary.LittleEndian.Uint64(data)))
	}
	return groups, nil
}
