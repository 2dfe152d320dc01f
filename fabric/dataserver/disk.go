package dataserver

import (
	"context"
	"errors"
	"time"

	"gleaner/fabric/disk"
)

// A Disk is one disk of the fabric, here or at a data server. Its methods are those of
// disk.Disk and may be called at the same time. They return when ctx ends; those of Local only
// look at it first, since a file system cannot be told to give up.
type Disk interface {
	// Identity says which disk it is. Its Salt is nobody's business: 0.
	Identity(context.Context) (disk.Identity, error)

	Read(ctx context.Context, group disk.GroupID, generation uint64, offset int64, buf []byte) error
	Write(ctx context.Context, group disk.GroupID, generation, token uint64, offset int64, data []byte, sync bool) error
	Sync(context.Context) error
	Salvage(ctx context.Context, group disk.GroupID, generation uint64, slice int, buf []byte) error

	Create(ctx context.Context, group disk.GroupID, vdisk disk.VDiskID, generation uint64) error
	Seal(ctx context.Context, group disk.GroupID, generation, token uint64) error
	Raise(ctx context.Context, group disk.GroupID, generation uint64) error
	Truncate(ctx context.Context, group disk.GroupID, generation uint64, blocks int) error
	Remove(ctx context.Context, group disk.GroupID, generation uint64) error
	Fence(ctx context.Context, vdisk disk.VDiskID, token uint64) error

	Stat(ctx context.Context, group disk.GroupID) (disk.Info, error)
	Written(ctx context.Context, group disk.GroupID, generation uint64) (disk.Mask, error)
	Sums(ctx context.Context, group disk.GroupID, generation uint64) ([]disk.Sum, error)
	Verify(ctx context.Context, group disk.GroupID) ([]*disk.SliceError, error)
	List(ctx context.Context, visit func(disk.GroupID) error) error

	// Copy makes a replica of a group that another disk has, of the same generation. A data
	// server fetches it from another by itself. The caller sees to it that
	// nobody writes to the group meanwhile; it has the token of the group's vDisk. A
	// copy that is there already, whole, is as good as a new one; any other
	// group of that number is ErrExists. What is wrong with the source is also ErrSource.
	Copy(ctx context.Context, group disk.GroupID, generation, token uint64, from Disk) error
}

// Errors beside those of package disk.
var (
	// ErrBusy is returned by a data server whose primary needs the machine, or
	// whose disk has too much in hand.
	ErrBusy = errors.New("busy")
	// ErrLost: the connection broke, and what became of the request is not known.
	ErrLost = errors.New("connection lost")
	// ErrUnreachable: there is no connection. The request was not sent.
	ErrUnreachable = errors.New("data server cannot be reached")
	// ErrReopened: the disk was opened again since it was first seen, and may lack what was not synced.
	ErrReopened = errors.New("disk was opened again")
	// ErrStranger: the other side does not know the cluster's key, or is of another cluster.
	ErrStranger = errors.New("not of this cluster")
	// ErrNoDisk: the data server has no disk of that name: it was reimaged, or taken away.
	ErrNoDisk = errors.New("no such disk")
	// ErrSource: a copy failed for its source.
	ErrSource = errors.New("source of a copy")
	// ErrChanged: the source of a copy is not what its checksums say: it was written meanwhile.
	ErrChanged = errors.New("group changed while it was copied")
)

// A Cluster is what all who belong to one know.
type Cluster struct {
	ID  string
	Key [32]byte
}

// A Beat is how a data server is. It is told without waiting for a disk.
type Beat struct {
	Busy  bool       `json:"busy"` // the primary needs the machine
	Disks []DiskBeat `json:"disks"`
}

// A DiskBeat is how a disk was when it was last looked at. A disk that was reimaged
// has another name than before.
type DiskBeat struct {
	Identity disk.Identity `json:"identity"`
	Used     int64         `json:"used"`   // bytes of the quota
	Free     int64         `json:"free"`   // bytes of the file system
	Groups   int           `json:"groups"` // number
	Rotten   int64         `json:"rotten"` // how often a checksum was wrong since the server started
	Failed   string        `json:"failed"` // why the disk takes no writes; empty if it does
	Age      time.Duration `json:"age_ns"` // since then; a disk that hangs grows old
}
