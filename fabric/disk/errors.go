package disk

import (
	"errors"
	"fmt"
)

// Errors that a caller acts on. Those with facts are types: SliceError,
// GenerationError, FenceError and QuotaError.
var (
	// ErrWiped is returned by Open where the directory has no identity: it was
	// wiped, or never formatted. Its groups are lost.
	ErrWiped = errors.New("no disk here: wiped, or never formatted")
	// ErrOtherDisk is returned by Open for a disk of another cluster, or another disk of this one.
	ErrOtherDisk = errors.New("another disk")
	// ErrInUse is returned by Open while another has the disk open.
	ErrInUse = errors.New("in use by another process")
	// ErrNotEmpty is returned by Format for a directory that has something in it.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrSpace is returned where the file system has less space than is asked for.
	ErrSpace = errors.New("not enough space")
	// ErrDamaged is returned by Open where the disk as a whole cannot be
	// trusted: its identity, its fences or a record of its log is unreadable.
	ErrDamaged = errors.New("damaged")
	// ErrFailed is returned by all that writes, once a write or a sync failed.
	ErrFailed = errors.New("disk failed: open it again")
	ErrClosed = errors.New("disk is closed")

	ErrNotFound = errors.New("no such group")
	ErrExists   = errors.New("group exists")
	ErrSealed   = errors.New("group is sealed")
	// ErrUnfinished is returned for a group that is being copied here, or was when a crash came.
	ErrUnfinished = errors.New("group is an unfinished copy")
	// ErrRange is returned for a part that does not lie in a group.
	ErrRange = errors.New("outside the group")
)

// A Condition says why a slice cannot be read.
type Condition uint8

const (
	// Rotten: the bytes are not those that were written.
	Rotten Condition = iota + 1
	// Torn: a crash interrupted a write to the slice.
	Torn
)

func (c Condition) String() string {
	if c == Torn {
		return "torn by a crash"
	}
	return "rotten"
}

// Header is the Slice of a SliceError that is about the group's header.
const Header = -1

// A SliceError names what of a group cannot be trusted. The whole slice can be
// written anew, which heals it. With the header of a group gone, so is the group.
type SliceError struct {
	Group     GroupID
	Slice     int // Header, or 0 to SlicesPerGroup-1
	Condition Condition
}

func (e *SliceError) Error() string {
	if e.Slice == Header {
		return fmt.Sprintf("disk: header of group %s is %s", e.Group, e.Condition)
	}
	return fmt.Sprintf("disk: slice %d of group %s is %s", e.Slice, e.Group, e.Condition)
}

// A GenerationError says that caller and replica are of different generations:
// whichever has the lower is stale.
type GenerationError struct {
	Group       GroupID
	Have, Asked uint64
}

func (e *GenerationError) Error() string {
	who := "the caller"
	if e.Have < e.Asked {
		who = "this replica"
	}
	return fmt.Sprintf("disk: group %s is of generation %d, asked for %d: %s is stale", e.Group, e.Have, e.Asked, who)
}

// A FenceError refuses a writer whose lease another has taken over.
type FenceError struct {
	VDisk          VDiskID
	Token, Highest uint64
}

func (e *FenceError) Error() string {
	return fmt.Sprintf("disk: token %d of vDisk %d is fenced off by %d", e.Token, e.VDisk, e.Highest)
}

// A QuotaError refuses a write for which the quota has no room. Nothing was changed.
type QuotaError struct {
	Quota, Used, Asked int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("disk: quota of %d bytes has %d in use and no room for %d more", e.Quota, e.Used, e.Asked)
}
