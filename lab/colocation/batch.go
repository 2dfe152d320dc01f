package colocation

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// A Batch is a task of the batch jobs, which runs as a process. A job is a small
// query like those of TPC-DS: tables are scanned, the results are joined, and the
// best are printed. Jobs that harvest the disk write their tables and read them
// back.
type Batch struct {
	Stage string // scan, join, top; write, read
	Dir   string // of the job's intermediate results
	Index int    // of the task
	Rows  int    // of a table, for scan and join
	MB    int    // of a table, for write and read
}

// Run does the task's work. Doing it twice does no harm.
func (b Batch) Run(out io.Writer) error {
	var err error
	switch b.Stage {
	case "scan":
		err = b.leave(tally(uint64(b.Index), b.Rows))
	case "join":
		err = b.join()
	case "top":
		err = b.top(out)
	case "write":
		err = b.write()
	case "read":
		err = b.read()
	default:
		err = fmt.Errorf("there is no stage %q", b.Stage)
	}
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	return nil
}

// items is how many things are sold: their sums fill four megabytes, more than
// the caches next to a core hold.
const items = 1 << 19

// A sums is how much was sold of each item.
type sums []int64

// tally generates a table row by row, and adds up what was sold.
func tally(table uint64, rows int) sums {
	r := rand.New(rand.NewPCG(table, 3))
	sold := make(sums, items)
	for range rows {
		sold[r.Uint32N(items)] += int64(r.Uint32N(1000))
	}
	return sold
}

func (s sums) add(more sums) {
	for item, sum := range more {
		s[item] += sum
	}
}

// join tallies a table of its own and adds the results of the scans.
func (b Batch) join() error {
	sold := tally(uint64(1000+b.Index), b.Rows)
	if err := b.gather("scan", sold); err != nil {
		return err
	}
	return b.leave(sold)
}

// top prints the ten items that were sold most.
func (b Batch) top(out io.Writer) error {
	sold := make(sums, items)
	if err := b.gather("join", sold); err != nil {
		return err
	}
	for range 10 {
		item := slices.Index(sold, slices.Max(sold))
		if _, err := fmt.Fprintln(out, item, sold[item]); err != nil {
			return err
		}
		sold[item] = -1
	}
	return nil
}

func (b Batch) file(stage string, index int) string {
	return filepath.Join(b.Dir, stage+"-"+strconv.Itoa(index))
}

// leave writes the result of a task, all of it or nothing.
func (b Batch) leave(found sums) error {
	text, err := binary.Append(nil, binary.LittleEndian, found)
	if err != nil {
		return err
	}
	draft := b.file("draft", b.Index)
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, b.file(b.Stage, b.Index))
}

// gather adds up the results of all tasks of a stage.
func (b Batch) gather(stage string, all sums) error {
	paths, err := filepath.Glob(filepath.Join(b.Dir, stage+"-*"))
	if err != nil {
		return err
	}
	found := make(sums, items)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := binary.Decode(text, binary.LittleEndian, found); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all.add(found)
	}
	return nil
}

// block is what is written and read at once.
const block = 1 << 20

// fill makes the n-th block of a table, with its checksum at the end.
func fill(text []byte, table uint64, n int) {
	r := rand.NewChaCha8([32]byte{byte(table), byte(table >> 8), byte(n), byte(n >> 8)})
	_, _ = r.Read(text[:block-4])
	binary.LittleEndian.PutUint32(text[block-4:], crc32.ChecksumIEEE(text[:block-4]))
}

// whole reports whether a block is as it was written.
func whole(text []byte) bool {
	return binary.LittleEndian.Uint32(text[block-4:]) == crc32.ChecksumIEEE(text[:block-4])
}

// write writes a table to the disk, and not only into memory.
func (b Batch) write() error {
	f, err := os.Create(b.file("table", b.Index))
	if err != nil {
		return err
	}
	defer f.Close()
	text := make([]byte, block)
	for n := range b.MB {
		fill(text, uint64(b.Index), n)
		if _, err := f.Write(text); err != nil {
			return err
		}
	}
	return f.Sync()
}

// read reads a table back, from the disk, checks it and removes it.
func (b Batch) read() error {
	path := b.file("table", b.Index)
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil // an earlier run has done it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := forgetPages(f); err != nil {
		return err
	}
	text := make([]byte, block)
	for n := range b.MB {
		if _, err := io.ReadFull(f, text); err != nil {
			return err
		}
		if !whole(text) {
			return fmt.Errorf("%s: block %d is not as it was written", path, n)
		}
	}
	return os.Remove(path)
}
