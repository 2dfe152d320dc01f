package nbdtest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"

	"gleaner/fabric/nbd"
)

const sector = 512

// Volatile is a device as a disk with a volatile cache is: what is written reaches its file at a flush, or with FUA. Some sectors
// reach it earlier, at random, so that they do so in another order than they were written in. To cut its power, kill its process.
type Volatile struct {
	mu    sync.Mutex
	file  *os.File
	early float64 // share of the sectors that are not held back
	rng   *rand.Rand
	held  map[int64][sector]byte // by number
}

// NewVolatile gives a device over a file of whole sectors. It is served with whole sectors only.
func NewVolatile(file *os.File, early float64, seed uint64) *Volatile {
	return &Volatile{file: file, early: early, rng: rand.New(rand.NewPCG(seed, 0)), held: map[int64][sector]byte{}}
}

// ReadAt fills p.
func (v *Volatile) ReadAt(_ context.Context, p []byte, offset int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.read(p, offset)
}

func (v *Volatile) read(p []byte, offset int64) error {
	if _, err := v.file.ReadAt(p, offset); err != nil {
		return err
	}
	for n := offset / sector; n*sector < offset+int64(len(p)); n++ {
		data, ok := v.held[n]
		if from := n*sector - offset; ok && from >= 0 {
			copy(p[from:], data[:])
		} else if ok {
			copy(p, data[-from:])
		}
	}
	return nil
}

// WriteAt holds p back, or most of it.
func (v *Volatile) WriteAt(_ context.Context, p []byte, offset int64, fua bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for at := int64(0); at < int64(len(p)); {
		n := (offset + at) / sector
		var data [sector]byte
		if err := v.read(data[:], n*sector); err != nil {
			return err
		}
		at += int64(copy(data[offset+at-n*sector:], p[at:]))
		v.held[n] = data
		if fua || v.rng.Float64() < v.early {
			if err := v.release(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// release writes a sector to the file.
func (v *Volatile) release(n int64) error {
	data := v.held[n]
	delete(v.held, n)
	_, err := v.file.WriteAt(data[:], n*sector)
	return err
}

// Flush writes all that is held back to the file, which outlives the process.
func (v *Volatile) Flush(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := range v.held {
		if err := v.release(n); err != nil {
			return err
		}
	}
	return nil
}

// Trim does nothing.
func (v *Volatile) Trim(context.Context, int64, int64, bool) error { return nil }

// Zero writes zeros.
func (v *Volatile) Zero(ctx context.Context, offset, length int64, _, fua bool) error {
	return v.WriteAt(ctx, make([]byte, length), offset, fua)
}

// Status says that there are no holes.
func (v *Volatile) Status(_ context.Context, _, length int64, _ int) ([]nbd.BlockStatus, error) {
	return []nbd.BlockStatus{{Length: length}}, nil
}

// Close leaves the file open, for it may be served again.
func (v *Volatile) Close() error { return nil }

// ServeVolatile is the main function of a process that serves a volatile device: arguments are the socket, the file, early and seed.
func ServeVolatile(args []string) error {
	file, err := os.OpenFile(args[1], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	early, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return err
	}
	l, err := nbd.Listen(args[0])
	if err != nil {
		return err
	}
	device := Offer{nbd.Export{Name: "volatile", Size: info.Size()}, NewVolatile(file, early, seed)}
	return nbd.Serve(context.Background(), l, Exports{device}, nbd.Options{})
}
