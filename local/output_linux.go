package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// keptOutput is how much is kept of each stream of a task, unless its stage
// sets another limit: more than people read, less than a disk.
const keptOutput = 1 * cluster.GB

// Output is not written to a disk with less than a twentieth of it free, or
// spareDisk if that is less: logs must not take the space that others need.
const spareDisk = 1 * cluster.GB

// An output is the streams of a task. The command writes to pipes, and its
// supervisor copies from these to files, so that it can limit their size.
type output struct {
	streams [2]*stream
	copying sync.WaitGroup
	ended   atomic.Bool // no writer is left
}

type stream struct {
	file        *os.File
	read, write *os.File // ends of the pipe
	left        int64    // bytes that will still be kept
	cut         int64    // bytes that were not
	unchecked   int      // bytes that may be written before the disk is checked again
}

// openOutput makes files and pipes for the output of the run in dir.
func openOutput(dir string, keep cluster.Bytes) (*output, error) {
	o := &output{}
	for i, name := range []string{stdoutFile, stderrFile} {
		s := &stream{left: int64(cmp.Or(keep, keptOutput))}
		o.streams[i] = s
		var err error
		if s.file, err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			s.read, s.write, err = os.Pipe()
		}
		if err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

// follow copies until finish is called. The command has been started: this process
// closes its copies of the command's ends of the pipes.
func (o *output) follow() {
	for _, s := range o.streams {
		s.write.Close()
		o.copying.Go(func() { s.copy(&o.ended) })
	}
}

// finish copies what is left in the pipes, adds a note to stderr, and returns how
// many bytes were not kept. All writers must be gone.
func (o *output) finish(note string) (cut int64) {
	o.ended.Store(true)
	for _, s := range o.streams {
		_ = s.read.SetReadDeadline(time.Now())
	}
	o.copying.Wait()
	o.streams[1].put([]byte(note))
	for _, s := range o.streams {
		cut += s.cut
	}
	o.close()
	return cut
}

func (o *output) close() {
	for _, s := range o.streams {
		if s != nil {
			s.file.Close()
			s.read.Close()
			s.write.Close()
		}
	}
}

const (
	lookEvery = 256 << 10              // bytes
	lastWords = 100 * time.Millisecond // for what is in a pipe that another process still holds open
	slowly    = time.Millisecond       // between reads of what is not kept, to save CPU
)

func (s *stream) copy(ended *atomic.Bool) {
	buffer := make([]byte, 64<<10)
	for {
		over := ended.Load()
		if over {
			_ = s.read.SetReadDeadline(time.Now().Add(lastWords))
		}
		n, err := s.read.Read(buffer)
		s.keep(buffer[:n])
		if err != nil && (over || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return
		}
	}
}

// keep writes what a task has written, up to the limit.
func (s *stream) keep(text []byte) {
	if int64(len(text)) <= s.left {
		s.left -= int64(len(text))
		s.put(text)
		return
	}
	if s.cut == 0 {
		s.put(text[:s.left])
		text = text[s.left:]
		s.left = 0
		s.put([]byte("\n[gleaner: the output ends here; the task has written more than is kept of it, see 'output' in docs/formats/job.md]\n"))
	}
	s.cut += int64(len(text))
	time.Sleep(slowly)
}

// put writes to the file. While the disk is full it waits, and the task with it.
func (s *stream) put(text []byte) {
	for len(text) > 0 {
		if s.unchecked <= 0 {
			if full(s.file) {
				time.Sleep(time.Second)
				continue
			}
			s.unchecked = lookEvery
		}
		n, err := s.file.Write(text)
		text, s.unchecked = text[n:], s.unchecked-n
		switch {
		case Lacks(err):
			time.Sleep(time.Second)
		case err != nil: // the disk is broken
			s.cut += int64(len(text))
			return
		}
	}
}

// full reports whether the disk of a file has no spare room.
func full(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil && nearlyFull(&s) != nil
}

// nearlyFull says how much is free on a disk without spare room; nil if it has some.
func nearlyFull(s *unix.Statfs_t) error {
	size, free := cluster.Bytes(s.Blocks)*cluster.Bytes(s.Bsize), cluster.Bytes(s.Bavail)*cluster.Bytes(s.Bsize)
	if spare := min(size/20, spareDisk); free < spare {
		return fmt.Errorf("the disk is nearly full: of %s %s are free, less than the %s to be left", size.Text(), free.Text(), spare.Text())
	}
	return nil
}

// checkDisk reports when tasks that write have to wait for room on the disk.
func (w *World) checkDisk() {
	var s unix.Statfs_t
	if unix.Statfs(w.Dir, &s) != nil {
		return
	}
	w.waits("the output of tasks in "+w.Dir, nearlyFull(&s))
}
