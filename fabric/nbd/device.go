package nbd

import (
	"context"
	"errors"
)

// A Device is what an export reads and writes. Its methods are called by many
// goroutines at once, with ranges of at least one byte that lie within the export's Size.
// They return soon after ctx ends.
//
// A write that has returned is seen by every read that begins after it. Bytes
// of a write that failed or overlaps with another under way are
// those of before or of either write.
//
// An error reaches the client as a number of the protocol's: ENOSPC if it wraps
// syscall.ENOSPC, EDQUOT or EFBIG, EPERM if it wraps EPERM, EACCES or EROFS, ESHUTDOWN, ENOMEM and EINVAL as
// they are, and EIO otherwise. Its text is sent along.
type Device interface {
	// ReadAt fills p.
	ReadAt(ctx context.Context, p []byte, offset int64) error
	// WriteAt writes p and does not keep it. With fua it is on stable storage
	// when WriteAt returns.
	WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error
	// Flush returns when all that returned before it was called is on stable storage,
	// whatever connection it came by.
	Flush(ctx context.Context) error
	// Trim says that the range is not needed any more. It may do nothing.
	Trim(ctx context.Context, offset, length int64, fua bool) error
	// Zero makes the range read as zeroes. With noHole it keeps space for it.
	Zero(ctx context.Context, offset, length int64, noHole, fua bool) error
	// Status says how the range is stored, as consecutive blocks from offset
	// on: at least one, and no more than most. They may end before the range
	// does, or after.
	Status(ctx context.Context, offset, length int64, most int) ([]BlockStatus, error)
	// Close is called when the last client has left. Nothing is called after it.
	Close() error
}

// A BlockStatus is a range of a device that is stored in one way. The zero flags are always safe.
type BlockStatus struct {
	Length int64
	Hole   bool // takes no space; a write to it may find none
	Zero   bool // reads as zeroes
}

// An Export is what clients are told of a device before they open it.
type Export struct {
	Name        string
	Description string // for people; may be empty
	Size        int64  // bytes
	ReadOnly    bool   // no write reaches the device
	MultiConn   bool   // a client may spread its requests over several connections
}

// Exports are the devices on offer.
type Exports interface {
	// List gives all that a client may know of.
	List(context.Context) ([]Export, error)
	// Find gives the export of a name, or ErrUnknown. The empty name asks for the
	// default export, whose own name may be another.
	Find(ctx context.Context, name string) (Export, error)
	// Open gives the device of an export, by its own name. It is called
	// when the first client opens it and then not again until that device is closed. ctx
	// ends with that client's handshake.
	Open(ctx context.Context, name string) (Device, error)
}

// ErrUnknown is returned by Find and Open when there is no export of that name.
var ErrUnknown = errors.New("no such export")
