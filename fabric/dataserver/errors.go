package dataserver

import (
	"encoding/binary"
	"errors"
	"syscall"

	"gleaner/fabric/disk"
)

// Kinds of facts in an error. Those above have three numbers, these none.
const (
	factSlice      = 1 // group, slice, condition
	factGeneration = 2 // group, have, asked
	factFence      = 3 // vDisk, token, highest
	factQuota      = 4 // quota, used, asked
	factErrno      = 5 // as Linux numbers them
)

// named are the errors that a caller acts on, by their kind of fact.
var named = map[byte]error{
	16: disk.ErrNotFound,
	17: disk.ErrExists,
	18: disk.ErrSealed,
	19: disk.ErrUnfinished,
	20: disk.ErrRange,
	21: disk.ErrSpace,
	22: disk.ErrFailed,
	23: disk.ErrClosed,
	32: ErrBusy,
	33: ErrNoDisk,
	34: ErrSource,
	35: ErrChanged,
}

const (
	factBytes = 1 + 3*8
	mostText  = 1 << 10
	mostFacts = 32 // of an error
)

// encodeError is an error as it is sent: its text, and the facts that errors.Is and errors.As
// find in it.
func encodeError(err error) []byte {
	text := err.Error()
	text = text[:min(len(text), mostText)]
	out := binary.LittleEndian.AppendUint16(nil, uint16(len(text)))
	out = append(out, text...)
	var slice *disk.SliceError
	if errors.As(err, &slice) {
		out = appendFact(out, factSlice, uint64(slice.Group), uint64(slice.Slice), uint64(slice.Condition))
	}
	var generation *disk.GenerationError
	if errors.As(err, &generation) {
		out = appendFact(out, factGeneration, uint64(generation.Group), generation.Have, generation.Asked)
	}
	var fence *disk.FenceError
	if errors.As(err, &fence) {
		out = appendFact(out, factFence, uint64(fence.VDisk), fence.Token, fence.Highest)
	}
	var quota *disk.QuotaError
	if errors.As(err, &quota) {
		out = appendFact(out, factQuota, uint64(quota.Quota), uint64(quota.Used), uint64(quota.Asked))
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		out = appendFact(out, factErrno, uint64(no), 0, 0)
	}
	for kind := range byte(255) {
		if e := named[kind]; e != nil && errors.Is(err, e) {
			out = appendFact(out, kind, 0, 0, 0)
		}
	}
	return out
}

func appendFact(out []byte, kind byte, a, b, c uint64) []byte {
	out = append(out, kind)
	for _, n := range []uint64{a, b, c} {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	return out
}

// A remoteError is what a server answered: for errors.Is and errors.As the same as on its side.
type remoteError struct {
	address string
	text    string
	facts   []error
}

func (e *remoteError) Error() string   { return "data server " + e.address + ": " + e.text }
func (e *remoteError) Unwrap() []error { return e.facts }

// decodeError reads what encodeError wrote. Facts of kinds that are not known are left out.
func decodeError(address string, data []byte) (*remoteError, bool) {
	if len(data) < 2 {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint16(data))
	data = data[2:]
	if n > mostText || n > len(data) || (len(data)-n)%factBytes != 0 || (len(data)-n)/factBytes > mostFacts {
		return nil, false
	}
	e := &remoteError{address: address, text: string(data[:n])}
	for data = data[n:]; len(data) > 0; data = data[factBytes:] {
		if fact := decodeFact(data); fact != nil {
			e.facts = append(e.facts, fact)
		}
	}
	return e, true
}

func decodeFact(data []byte) error {
	var n [3]uint64
	for i := range n {
		n[i] = binary.LittleEndian.Uint64(data[1+8*i:])
	}
	switch data[0] {
	case factSlice:
		return &disk.SliceError{Group: disk.GroupID(n[0]), Slice: int(int64(n[1])), Condition: disk.Condition(n[2])}
	case factGeneration:
		return &disk.GenerationError{Group: disk.GroupID(n[0]), Have: n[1], Asked: n[2]}
	case factFence:
		return &disk.FenceError{VDisk: disk.VDiskID(n[0]), Token: n[1], Highest: n[2]}
	case factQuota:
		return &disk.QuotaError{Quota: int64(n[0]), Used: int64(n[1]), Asked: int64(n[2])}
	case factErrno:
		return syscall.Errno(n[0])
	}
	return named[data[0]]
}
