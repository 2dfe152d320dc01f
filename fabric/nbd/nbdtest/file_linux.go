package nbdtest

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"gleaner/fabric/nbd"
)

// File is a device that is one file. Its holes are the file's.
type File struct{ file *os.File }

// NewFile serves a file that is open for reading and writing.
func NewFile(file *os.File) *File { return &File{file} }

// ReadAt fills p.
func (f *File) ReadAt(_ context.Context, p []byte, offset int64) error {
	_, err := f.file.ReadAt(p, offset)
	return err
}

// WriteAt writes p, and syncs with fua.
func (f *File) WriteAt(ctx context.Context, p []byte, offset int64, fua bool) error {
	_, err := f.file.WriteAt(p, offset)
	return f.syncIf(ctx, fua, err)
}

// Flush syncs the file's bytes.
func (f *File) Flush(context.Context) error { return unix.Fdatasync(int(f.file.Fd())) }

// Trim punches a hole.
func (f *File) Trim(ctx context.Context, offset, length int64, fua bool) error {
	return f.Zero(ctx, offset, length, false, fua)
}

// Zero punches a hole, or keeps the space with noHole.
func (f *File) Zero(ctx context.Context, offset, length int64, noHole, fua bool) error {
	mode := uint32(unix.FALLOC_FL_KEEP_SIZE | unix.FALLOC_FL_PUNCH_HOLE)
	if noHole {
		mode = unix.FALLOC_FL_ZERO_RANGE
	}
	return f.syncIf(ctx, fua, unix.Fallocate(int(f.file.Fd()), mode, offset, length))
}

func (f *File) syncIf(ctx context.Context, fua bool, err error) error {
	if err != nil || !fua {
		return err
	}
	return f.Flush(ctx)
}

// Status asks the file system for data and holes.
func (f *File) Status(_ context.Context, offset, length int64, most int) (blocks []nbd.BlockStatus, _ error) {
	fd := int(f.file.Fd())
	for at := offset; at < offset+length && len(blocks) < most; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			data, err = offset+length, nil // no data to the end
		}
		if err != nil {
			return nil, err
		}
		if data > at {
			blocks = append(blocks, nbd.BlockStatus{Length: data - at, Hole: true, Zero: true})
			at = data
			continue
		}
		hole, err := unix.Seek(fd, at, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, nbd.BlockStatus{Length: hole - at})
		at = hole
	}
	return blocks, nil
}

// Close leaves the file open, for it may be served again.
func (f *File) Close() error { return nil }
