package disk_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// watchedSync is a file system that tells of syncs once they are done.
type watchedSync struct {
	disk.FS
	told func(name string)
}

func (f *watchedSync) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	return watchedFile{file, f, name}, err
}

type watchedFile struct {
	disk.File
	fs   *watchedSync
	name string
}

func (f watchedFile) Sync() error {
	defer f.fs.told(f.name)
	return f.File.Sync()
}

// watched is a disk with that many groups, all of them full of a byte and synced.
func watched(t *testing.T, groups int, full byte) (*disktest.FS, *watchedSync, *disk.Disk) {
	t.Helper()
	quota := int64(groups+2) * 5 << 20
	memory := disktest.New(quota+4<<20, dir)
	id := identity(quota)
	id.Log = 4 << 20 // more than is written between two flushes
	must(t, disk.Format(memory, dir, id))
	fs := &watchedSync{memory, func(string) {}}
	d, err := disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c"})
	must(t, err)
	for id := range disk.GroupID(groups) {
		must(t, d.Create(id+1, 1, 1))
		for at := int64(0); at < disk.GroupSize; at += disk.BlockSize {
			must(t, d.Write(id+1, 1, 1, at, block(full), false))
		}
	}
	must(t, d.Drain())
	return memory, fs, d
}

func block(b byte) []byte { return bytes.Repeat([]byte{b}, disk.BlockSize) }

// TestOneIntentForManyOverwrites: who overwrites groups in order waits for the disk less and less often.
func TestOneIntentForManyOverwrites(t *testing.T) {
	_, fs, d := watched(t, 31, 'a')
	var syncs atomic.Int64
	fs.told = func(string) { syncs.Add(1) }
	for id := range disk.GroupID(31) {
		for at := int64(0); at < disk.GroupSize; at += disk.BlockSize {
			must(t, d.Write(id+1, 1, 1, at, block('b'), false))
		}
	}
	if n := syncs.Load(); n != 5 { // of 1, 2, 4, 8 and 16 groups
		t.Errorf("%d syncs", n)
	}
	must(t, d.Sync())
	syncs.Store(0)
	must(t, d.Write(1, 1, 1, 0, block('c'), false))
	if n := syncs.Load(); n != 1 {
		t.Errorf("%d syncs before the first overwrite after a flush", n)
	}
}

// TestOverwrittenWhenThePowerGoes: of an overwrite that was not flushed each slice is as before, or as it was to become, or torn; what was flushed
// is whole. The overwrite comes before, while or after a flush is under way.
func TestOverwrittenWhenThePowerGoes(t *testing.T) {
	for _, when := range []string{"before", "while", "after"} {
		t.Run(when, func(t *testing.T) {
			found := map[string]int{}
			for seed := range uint64(30) {
				powerGoes(t, when, rand.New(rand.NewPCG(seed, 1)), found)
			}
			t.Log(found)
			if when != "before" && (found["old"] == 0 || found["torn"] == 0) {
				t.Errorf("the power cut left %v", found)
			}
		})
	}
}

// powerGoes overwrites the first block of the only group, and the second at the time that is asked for.
func powerGoes(t *testing.T, when string, rng *rand.Rand, found map[string]int) {
	memory, fs, d := watched(t, 1, 'a')
	overwrite := func(number int64, with byte) { must(t, d.Write(1, 1, 1, number*disk.BlockSize, block(with), false)) }
	overwrite(0, 'b')
	must(t, d.Write(1, 1, 1, 3*disk.BlockSize, slice('s'), false)) // so that the flush has something to sync in the log
	var other sync.WaitGroup
	switch when {
	case "before":
		overwrite(1, 'b')
	case "while": // all that the flush is for is synced, and it has not ended
		fs.told = func(name string) {
			if !strings.HasSuffix(name, "log") {
				return
			}
			fs.told = func(string) {}
			logged := d.Usage().InLog
			other.Go(func() { overwrite(1, 'b') })
			for d.Usage().InLog == logged {
				time.Sleep(time.Millisecond)
			}
		}
	}
	must(t, d.Sync())
	other.Wait()
	if when == "after" {
		overwrite(2, 'a') // with the intent
		overwrite(1, 'b')
	}
	d = reopen(t, memory.Cut(rng, 50))
	reads(t, d, 0, block('b'))
	reads(t, d, 2*disk.BlockSize, block('a'))
	buf := make([]byte, disk.SliceSize)
	for i := range disk.BlockSize / disk.SliceSize {
		err := d.Read(1, 1, int64(disk.BlockSize+i*disk.SliceSize), buf)
		var bad *disk.SliceError
		switch {
		case err == nil && bytes.Equal(buf, slice('b')):
			found["new"]++
		case err == nil && bytes.Equal(buf, slice('a')) && when != "before":
			found["old"]++
		case errors.As(err, &bad) && bad.Condition == disk.Torn && when != "before":
			found["torn"]++
		default:
			t.Fatalf("slice %d: %v, %x…", i, err, buf[:4])
		}
	}
}
