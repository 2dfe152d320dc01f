// Package standard holds jobs of a fixed amount of work, against which other
// jobs' slow-down is measured.
//
// Four of them keep one resource busy and nothing else, as far as possible
// (PEVA'16 §4.2): they are the probes that measure one share of another job's
// loading vector. Three more use both CPU and disk, like a compression, a mail
// server and a file server.
//
// All disk access bypasses the page cache: a job must take as long the second
// time as the first. Its blocks have about the same size because the model's
// slices are equal; a disk that serves requests in turn delays small requests
// behind large ones by more than their share.
package standard

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// A Kind says what a job does.
type Kind struct {
	Name string
	Does string
	Unit string // of its size
	Disk bool   // it needs a directory
	run  func(ctx context.Context, j Job) error
}

// Kinds lists them all: first those that use one resource.
func Kinds() []Kind {
	return []Kind{
		{"cpu", "integer arithmetic", "million rounds", false, cpu},
		{"io", "random reads past the page cache", "blocks of 8 MB", true, disk((*files).whole)},
		{"memory", "copies between two large buffers", "blocks of 8 MB", false, memory},
		{"net", "a stream over the loopback interface", "blocks of 8 MB", false, network},
		{"filecomp", "reads, compresses and writes files", "times 5 files, 30 MB", true, disk((*files).compress)},
		{"mail", "reads four files, each checked, and writes one", "times 5 files, 30 MB", true, disk((*files).mail)},
		{"files", "reads a file and writes four, each checked", "times 5 files, 30 MB", true, disk((*files).serve)},
	}
}

// Find returns the kind of a name.
func Find(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// A Job is a job to run.
type Job struct {
	Kind Kind
	Size int64  // in the kind's unit; 0: it goes on until it is stopped
	Dir  string // of its file, which is made if missing
}

// Run does the work. A job without a size ends with ctx, which is not an error.
func (j Job) Run(ctx context.Context) error {
	err := j.Kind.run(ctx, j)
	if j.Size == 0 && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// each calls do for every unit of work, until ctx is done.
func (j Job) each(ctx context.Context, do func() error) error {
	for n := int64(0); j.Size == 0 || n < j.Size; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(); err != nil {
			return fmt.Errorf("standard: %s: %w", j.Kind.Name, err)
		}
	}
	return nil
}

// sink uses results, so that the compiler does not remove the work.
var sink atomic.Uint64

func cpu(ctx context.Context, j Job) error {
	x := uint64(88172645463325252)
	defer func() { sink.Store(x) }()
	return j.each(ctx, func() error {
		for range 1_000_000 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		return nil
	})
}

// working is the size of each of the two buffers: together they are larger than any
// cache.
const working = 256 << 20

func memory(ctx context.Context, j Job) error {
	from, to := make([]byte, working), make([]byte, working)
	for i := 0; i < working; i += os.Getpagesize() {
		from[i], to[i] = 1, 1 // so that the pages are allocated
	}
	at := 0
	return j.each(ctx, func() error {
		copy(to[at:at+block], from[at:at+block])
		at = (at + block) % working
		return nil
	})
}

func network(ctx context.Context, j Job) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	received := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, block))
		}
		received <- err
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	message := make([]byte, block)
	err = j.each(ctx, func() error { _, err := conn.Write(message); return err })
	return errors.Join(err, conn.Close(), <-received)
}

// block is what is read or written at once. It takes a disk about as long as
// the kernel lets a process have a core while others wait for it.
const block = 8 << 20

// sizes are those of files in a unit of work, in megabytes: each once, in random
// order. If all files were equal, jobs of one kind would run in step and need the
// same resource at the same time.
var sizes = []int{4, 5, 6, 7, 8}

// files are the data of jobs that use the disk: the first half of a file is read
// and the second written, so that no job reads what a job wrote, which would
// compress too fast.
type files struct {
	*os.File
	rng  *rand.Rand
	data []byte
	pack []byte // buffer for compressed data
}

// somewhere is the place of a block in half of the file.
func (f *files) somewhere() int64 { return block * f.rng.Int64N(dataSize/2/block) }

func (f *files) read(size int) error {
	_, err := f.ReadAt(f.data[:size], f.somewhere())
	return err
}

func (f *files) write(data []byte) error {
	_, err := f.WriteAt(data, dataSize/2+f.somewhere())
	return err
}

func (f *files) check(size int) { sink.Add(uint64(crc32.ChecksumIEEE(f.data[:size]))) }

// disk makes a job of one unit of work with files.
func disk(unit func(f *files) error) func(context.Context, Job) error {
	return func(ctx context.Context, j Job) error {
		file, err := openData(j.Dir)
		if err != nil {
			return err
		}
		defer file.Close()
		data, err := aligned(block)
		if err != nil {
			return err
		}
		pack, err := aligned(s2.MaxEncodedLen(block))
		if err != nil {
			return err
		}
		f := &files{file, rand.New(rand.NewPCG(uint64(os.Getpid()), 0)), data, pack}
		return j.each(ctx, func() error { return unit(f) })
	}
}

// unit does each file of a unit of work.
func (f *files) unit(do func(nth, size int) error) error {
	for nth, i := range f.rng.Perm(len(sizes)) {
		if err := do(nth, sizes[i]<<20); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) whole() error { return f.read(block) }

func (f *files) compress() error {
	return f.unit(func(_, size int) error {
		if err := f.read(size); err != nil {
			return err
		}
		n := len(s2.Encode(f.pack, f.data[:size]))
		return f.write(f.pack[:min((n+page-1)/page*page, block)]) // no file grows
	})
}

func (f *files) mail() error {
	return f.unit(func(nth, size int) error {
		if nth == 0 {
			return f.write(f.data[:size])
		}
		defer f.check(size)
		return f.read(size)
	})
}

func (f *files) serve() error {
	return f.unit(func(nth, size int) error {
		if nth == 0 {
			return f.read(size)
		}
		f.check(size)
		return f.write(f.data[:size])
	})
}
