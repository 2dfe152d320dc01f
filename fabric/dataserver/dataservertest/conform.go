// Package dataservertest shows that a way to reach disks keeps what
// dataserver.Disk promises.
package dataservertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// A Reach gives disks in the way that is to be tested, in their order.
type Reach func(t *testing.T, disks ...*disk.Disk) []dataserver.Disk

// Conform runs the suite with disks of a cluster of that name.
func Conform(t *testing.T, cluster string, reach Reach) {
	for name, test := range map[string]func(*bench){
		"identity":        identity,
		"model":           model,
		"groups":          groups,
		"many groups":     manyGroups,
		"ranges":          ranges,
		"fences":          fences,
		"rot":             rot,
		"quota":           quota,
		"full":            full,
		"failed":          failed,
		"ended":           ended,
		"copy":            copied,
		"copy again":      copiedAgain,
		"copy refused":    copyRefused,
		"copy from rot":   copyFromRot,
		"copy that fails": copyFails,
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{T: t, ctx: t.Context()}
			var disks []*disk.Disk
			for i := range b.files {
				b.files[i] = disktest.New(capacity, dir)
				id := disk.Identity{Cluster: cluster, Disk: fmt.Sprintf("d%d", i), Tier: disk.SSD, Quota: size, Log: 2 << 20, Salt: 77}
				b.must(disk.Format(b.files[i], dir, id))
				d, err := disk.Open(b.files[i], dir, disk.Options{Cluster: cluster})
				b.must(err)
				t.Cleanup(func() { d.Close() }) // it may have failed
				disks = append(disks, d)
			}
			reached := reach(t, disks...)
			b.a, b.b = reached[0], reached[1]
			test(b)
		})
	}
}

const (
	dir      = "disk"
	capacity = 80 << 20
	size     = 64 << 20 // quota
)

// A bench has two disks on which a test works.
type bench struct {
	*testing.T
	ctx   context.Context
	a, b  dataserver.Disk
	files [2]*disktest.FS
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wants(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("got %v, want %v", err, want)
	}
}

// wantsFacts wants an error that has, as errors.As finds it, the same facts as another.
func wantsFacts[E error](b *bench, err error, want E) {
	b.Helper()
	var got E
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		b.Fatalf("got %v, want %v", err, want)
	}
}

func (b *bench) reads(from dataserver.Disk, group disk.GroupID, generation uint64, offset int64, want []byte) {
	b.Helper()
	buf := make([]byte, len(want))
	b.must(from.Read(b.ctx, group, generation, offset, buf))
	if !bytes.Equal(buf, want) {
		b.Fatalf("group %s at %d: read %x…, want %x…", group, offset, buf[:min(8, len(buf))], want[:min(8, len(want))])
	}
}

func slice(with byte) []byte { return bytes.Repeat([]byte{with}, disk.SliceSize) }

func groupFile(group disk.GroupID) string { return filepath.Join(dir, "groups", group.String()) }

func identity(b *bench) {
	id, err := b.b.Identity(b.ctx)
	b.must(err)
	if id.Disk != "d1" || id.Tier != disk.SSD || id.Quota != size || id.Salt != 0 {
		b.Errorf("it is %+v", id)
	}
}

// model: several writers, each in its own group, read what they wrote, and are told what was written.
func model(b *bench) {
	var all sync.WaitGroup
	for group := range disk.GroupID(4) {
		b.must(b.a.Create(b.ctx, group, 1, 1))
		all.Go(func() {
			m := modeller{bench: b, group: group, rng: rand.New(rand.NewPCG(1, uint64(group))), want: make([]byte, disk.GroupSize)}
			for range 60 {
				m.step()
			}
			m.compare()
		})
	}
	all.Wait()
}

type modeller struct {
	*bench
	group   disk.GroupID
	rng     *rand.Rand
	want    []byte
	written disk.Mask
}

func (m *modeller) step() {
	length := 1 + m.rng.IntN(3*disk.SliceSize)
	if m.rng.IntN(8) == 0 {
		length = 1 + m.rng.IntN(disk.BlockSize)
	}
	offset := m.rng.IntN(disk.GroupSize - length)
	if m.rng.IntN(2) == 0 {
		buf := make([]byte, length)
		if err := m.a.Read(m.ctx, m.group, 1, int64(offset), buf); err != nil || !bytes.Equal(buf, m.want[offset:][:length]) {
			m.Errorf("group %s at %d+%d: %v, or other bytes", m.group, offset, length, err)
		}
		return
	}
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(m.rng.Uint32())
	}
	copy(m.want[offset:], data)
	for at := offset / disk.SliceSize; at*disk.SliceSize < offset+length; at++ {
		m.written.Add(at)
	}
	if err := m.a.Write(m.ctx, m.group, 1, 1, int64(offset), data, m.rng.IntN(8) == 0); err != nil {
		m.Error(err)
	}
	clear(data) // it is not kept
}

func (m *modeller) compare() {
	buf := make([]byte, disk.GroupSize)
	if err := m.a.Read(m.ctx, m.group, 1, 0, buf); err != nil || !bytes.Equal(buf, m.want) {
		m.Errorf("group %s: %v, or other bytes", m.group, err)
	}
	written, err := m.a.Written(m.ctx, m.group, 1)
	if err != nil || written != m.written {
		m.Errorf("group %s: %v, or other slices are written", m.group, err)
	}
	sums, err := m.a.Sums(m.ctx, m.group, 1)
	if err != nil || len(sums) != disk.SlicesPerGroup {
		m.Errorf("%d sums: %v", len(sums), err)
		return
	}
	for i, sum := range sums {
		want := disk.Sum{}
		if m.written.Has(i) {
			want = disk.Sum{Written: true, CRC32C: disk.CRC32C(m.want[i*disk.SliceSize:][:disk.SliceSize])}
		}
		if sum != want {
			m.Errorf("slice %d of group %s is %+v, want %+v", i, m.group, sum, want)
		}
	}
	if found, err := m.a.Verify(m.ctx, m.group); err != nil || len(found) > 0 {
		m.Errorf("group %s: %v, %v", m.group, found, err)
	}
}

// groups go from Create to Remove, and refuse callers of other generations.
func groups(b *bench) {
	const group, vdisk = 1 << 40, 9
	_, err := b.a.Stat(b.ctx, group)
	b.wants(err, disk.ErrNotFound)
	b.wants(b.a.Read(b.ctx, group, 1, 0, slice(0)), disk.ErrNotFound)
	b.must(b.a.Create(b.ctx, group, vdisk, 3))
	b.wants(b.a.Create(b.ctx, group, vdisk, 3), disk.ErrExists)
	b.must(b.a.Write(b.ctx, group, 3, 1, disk.BlockSize, slice('x'), true))
	info, err := b.a.Stat(b.ctx, group)
	b.must(err)
	if want := (disk.Info{VDisk: vdisk, Generation: 3, Allocated: info.Allocated, Written: 1}); info != want || info.Allocated < 2*disk.BlockSize {
		b.Errorf("it is %+v", info)
	}

	stale := &disk.GenerationError{Group: group, Have: 3, Asked: 2}
	wantsFacts(b, b.a.Read(b.ctx, group, 2, 0, slice(0)), stale)
	wantsFacts(b, b.a.Write(b.ctx, group, 2, 1, 0, slice(0), false), stale)
	wantsFacts(b, b.a.Raise(b.ctx, group, 2), stale)
	wantsFacts(b, b.a.Seal(b.ctx, group, 2, 1), stale)
	wantsFacts(b, b.a.Remove(b.ctx, group, 2), stale)
	wantsFacts(b, b.a.Salvage(b.ctx, group, 2, 0, slice(0)), stale)
	_, err = b.a.Written(b.ctx, group, 2)
	wantsFacts(b, err, stale)
	_, err = b.a.Sums(b.ctx, group, 2)
	wantsFacts(b, err, stale)

	b.must(b.a.Write(b.ctx, group, 3, 1, 3*disk.BlockSize, slice('y'), true))
	wantsFacts(b, b.a.Truncate(b.ctx, group, 2, 2), stale)
	b.wants(b.a.Truncate(b.ctx, group, 3, 5), disk.ErrRange)
	b.wants(b.a.Truncate(b.ctx, group, 3, -1), disk.ErrRange)
	b.wants(b.a.Truncate(b.ctx, group+1, 3, 2), disk.ErrNotFound)
	b.must(b.a.Truncate(b.ctx, group, 3, 2))
	b.reads(b.a, group, 3, 3*disk.BlockSize, make([]byte, disk.SliceSize))
	if cut, err := b.a.Stat(b.ctx, group); err != nil || cut != info {
		b.Errorf("truncated it is %+v, %v, before the last write %+v", cut, err, info)
	}
	b.must(b.a.Raise(b.ctx, group, 4))
	b.reads(b.a, group, 4, disk.BlockSize, slice('x'))
	b.must(b.a.Sync(b.ctx))
	b.must(b.a.Seal(b.ctx, group, 4, 1))
	b.wants(b.a.Write(b.ctx, group, 4, 1, 0, slice(0), false), disk.ErrSealed)
	info, err = b.a.Stat(b.ctx, group)
	if err != nil || !info.Sealed || info.Generation != 4 {
		b.Errorf("it is %+v, %v", info, err)
	}
	b.must(b.a.Remove(b.ctx, group, 4))
	b.wants(b.a.Remove(b.ctx, group, 4), disk.ErrNotFound)
	_, err = b.a.Verify(b.ctx, group)
	b.wants(err, disk.ErrNotFound)
}

func manyGroups(b *bench) {
	var want, got []disk.GroupID
	for group := range disk.GroupID(2500) { // more than one answer has
		b.must(b.a.Create(b.ctx, group, 1, 1))
		want = append(want, group)
	}
	b.must(b.a.List(b.ctx, func(group disk.GroupID) error {
		got = append(got, group)
		return nil
	}))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("groups are %v", got)
	}
	enough := errors.New("enough")
	b.wants(b.a.List(b.ctx, func(disk.GroupID) error { return enough }), enough)
}

func ranges(b *bench) {
	b.must(b.a.Create(b.ctx, 1, 1, 1))
	for _, part := range []struct {
		offset int64
		length int
	}{{-1, 5}, {0, 0}, {disk.GroupSize, 1}, {disk.GroupSize - 1, 2}, {1 << 40, 1}, {1, disk.GroupSize}} {
		b.wants(b.a.Read(b.ctx, 1, 1, part.offset, make([]byte, part.length)), disk.ErrRange)
		b.wants(b.a.Write(b.ctx, 1, 1, 1, part.offset, make([]byte, part.length), false), disk.ErrRange)
	}
	b.wants(b.a.Salvage(b.ctx, 1, 1, disk.SlicesPerGroup, slice(0)), disk.ErrRange)
	b.wants(b.a.Salvage(b.ctx, 1, 1, -1, slice(0)), disk.ErrRange)
	b.wants(b.a.Salvage(b.ctx, 1, 1, 0, make([]byte, 5)), disk.ErrRange)
	whole := bytes.Repeat([]byte("gleaner!"), disk.GroupSize/8)
	b.must(b.a.Write(b.ctx, 1, 1, 1, 0, whole, false))
	b.reads(b.a, 1, 1, 0, whole)
}

func fences(b *bench) {
	b.must(b.a.Create(b.ctx, 1, 9, 1))
	b.must(b.a.Write(b.ctx, 1, 1, 5, 0, slice('x'), false))
	old := &disk.FenceError{VDisk: 9, Token: 4, Highest: 5}
	wantsFacts(b, b.a.Write(b.ctx, 1, 1, 4, 0, slice('y'), false), old)
	wantsFacts(b, b.a.Fence(b.ctx, 9, 4), old)
	wantsFacts(b, b.a.Seal(b.ctx, 1, 1, 4), old)
	b.must(b.a.Fence(b.ctx, 9, 6))
	wantsFacts(b, b.a.Write(b.ctx, 1, 1, 5, 0, slice('y'), false), &disk.FenceError{VDisk: 9, Token: 5, Highest: 6})
	b.reads(b.a, 1, 1, 0, slice('x'))
}

// rot flips a bit that a disk has written to a group file.
func (b *bench) rot(group disk.GroupID, at int) {
	b.Helper()
	b.must(b.a.Create(b.ctx, group, 1, 1))
	b.must(b.a.Write(b.ctx, group, 1, 1, 0, bytes.Repeat([]byte{1}, disk.BlockSize), true)) // so long that it is written in place
	b.files[0].Flip(groupFile(group), (12288+int64(at)*disk.SliceSize+77)*8)
}

func rot(b *bench) {
	b.rot(1, 7)
	want := &disk.SliceError{Group: 1, Slice: 7, Condition: disk.Rotten}
	wantsFacts(b, b.a.Read(b.ctx, 1, 1, 0, make([]byte, disk.BlockSize)), want)
	wantsFacts(b, b.a.Write(b.ctx, 1, 1, 1, 7*disk.SliceSize+5, []byte("part"), false), want)
	wantsFacts(b, b.a.Salvage(b.ctx, 1, 1, 7, slice(0)), want)
	b.must(b.a.Salvage(b.ctx, 1, 1, 8, slice(0)))
	found, err := b.a.Verify(b.ctx, 1)
	if err != nil || len(found) != 1 || *found[0] != *want {
		b.Fatalf("found %v, %v", found, err)
	}
	b.must(b.a.Write(b.ctx, 1, 1, 1, 7*disk.SliceSize, slice(1), false)) // heals it
	b.reads(b.a, 1, 1, 0, bytes.Repeat([]byte{1}, disk.BlockSize))
}

func quota(b *bench) {
	block := make([]byte, disk.BlockSize)
	for group := disk.GroupID(0); ; group++ {
		b.must(b.a.Create(b.ctx, group, 1, 1))
		for offset := int64(0); offset < disk.GroupSize; offset += disk.BlockSize {
			err := b.a.Write(b.ctx, group, 1, 1, offset, block, false)
			var over *disk.QuotaError
			if errors.As(err, &over) {
				if over.Quota != size || over.Asked != disk.BlockSize || over.Used+over.Asked <= size {
					b.Errorf("refused with %+v", over)
				}
				return
			}
			b.must(err)
		}
	}
}

// full: a file system that is fuller than the quota says refuses writes and takes reads.
func full(b *bench) {
	b.must(b.a.Create(b.ctx, 1, 1, 1))
	b.must(b.a.Write(b.ctx, 1, 1, 1, 0, slice('x'), false))
	filler, err := b.files[0].Create(filepath.Join(dir, "filler"))
	b.must(err)
	free, err := b.files[0].Free(dir)
	b.must(err)
	b.must(filler.Allocate(free))
	b.wants(b.a.Write(b.ctx, 1, 1, 1, 2*disk.BlockSize, slice('y'), false), disk.ErrSpace)
	b.reads(b.a, 1, 1, 0, slice('x'))
	b.must(b.a.Write(b.ctx, 1, 1, 1, disk.SliceSize, slice('y'), false))
}

// failed: a disk whose file system fails takes no more writes, and tells why.
func failed(b *bench) {
	b.must(b.a.Create(b.ctx, 1, 1, 1))
	b.must(b.a.Write(b.ctx, 1, 1, 1, 0, slice('x'), false))
	b.files[0].Fault(func(op, name string) error {
		if op == "write" && strings.HasSuffix(name, "log") {
			return syscall.ENOSPC
		}
		return nil
	})
	for range 2 {
		err := b.a.Write(b.ctx, 1, 1, 1, 0, slice('y'), false)
		b.wants(err, disk.ErrFailed)
		b.wants(err, syscall.ENOSPC)
	}
	b.files[0].Fault(nil)
	b.wants(b.a.Create(b.ctx, 2, 1, 1), disk.ErrFailed)
	b.reads(b.a, 1, 1, 0, slice('x'))
}

// ended: nothing begins when its ctx has ended.
func ended(b *bench) {
	b.must(b.a.Create(b.ctx, 1, 1, 1))
	canceled, cancel := context.WithCancel(b.ctx)
	cancel()
	b.wants(b.a.Write(canceled, 1, 1, 1, 0, slice('x'), false), context.Canceled)
	late, cancel := context.WithDeadline(b.ctx, time.Now().Add(-time.Second))
	defer cancel()
	b.wants(b.a.Read(late, 1, 1, 0, slice(0)), context.DeadlineExceeded)
	b.wants(b.a.Sync(late), context.DeadlineExceeded)
	b.wants(b.b.Copy(late, 1, 1, 1, b.a), context.DeadlineExceeded)
	_, err := b.b.Stat(b.ctx, 1)
	b.wants(err, disk.ErrNotFound)
}

// filled makes a group with some slices of a in it.
func (b *bench) filled(group disk.GroupID) []disk.Sum {
	b.Helper()
	b.must(b.a.Create(b.ctx, group, 9, 7))
	b.must(b.a.Write(b.ctx, group, 7, 1, 3*disk.SliceSize, slice('x'), false))
	b.must(b.a.Write(b.ctx, group, 7, 1, 2*disk.BlockSize-5, bytes.Repeat([]byte("long"), disk.BlockSize/4), false))
	b.must(b.a.Write(b.ctx, group, 7, 1, disk.GroupSize-1, []byte("e"), false))
	sums, err := b.a.Sums(b.ctx, group, 7)
	b.must(err)
	return sums
}

// same wants a group of b to be as one of a.
func (b *bench) same(group disk.GroupID, sums []disk.Sum) {
	b.Helper()
	from, err := b.a.Stat(b.ctx, group)
	b.must(err)
	to, err := b.b.Stat(b.ctx, group)
	b.must(err)
	if from != to {
		b.Errorf("the copy is %+v, not %+v", to, from)
	}
	got, err := b.b.Sums(b.ctx, group, from.Generation)
	if err != nil || !slices.Equal(got, sums) {
		b.Errorf("the copy has other slices: %v", err)
	}
	if found, err := b.b.Verify(b.ctx, group); err != nil || len(found) > 0 {
		b.Errorf("the copy has %v, %v", found, err)
	}
}

func copied(b *bench) {
	sums := b.filled(1)
	b.must(b.b.Copy(b.ctx, 1, 7, 1, b.a))
	b.same(1, sums)
	b.reads(b.b, 1, 7, disk.GroupSize-2, []byte("\x00e"))
	b.reads(b.b, 1, 7, 0, slice(0))
	b.must(b.b.Write(b.ctx, 1, 7, 1, 0, slice('y'), false))

	b.must(b.a.Create(b.ctx, 2, 9, 1)) // nothing was ever written to it
	b.must(b.b.Copy(b.ctx, 2, 1, 1, b.a))
	b.same(2, make([]disk.Sum, disk.SlicesPerGroup))

	sums = b.filled(3)
	b.must(b.a.Seal(b.ctx, 3, 7, 1))
	b.must(b.b.Copy(b.ctx, 3, 7, 1, b.a))
	b.same(3, sums)
	b.wants(b.b.Write(b.ctx, 3, 7, 1, 0, slice('y'), false), disk.ErrSealed)

	b.must(b.a.Create(b.ctx, 4, 9, 1)) // all of it
	b.must(b.a.Write(b.ctx, 4, 1, 1, 0, bytes.Repeat([]byte("full"), disk.GroupSize/4), false))
	b.must(b.b.Copy(b.ctx, 4, 1, 1, b.a))
	b.reads(b.b, 4, 1, 0, bytes.Repeat([]byte("full"), disk.GroupSize/4))
}

// copiedAgain: a copy that is there is as good as a new one, as long as it is the same.
func copiedAgain(b *bench) {
	sums := b.filled(1)
	for range 2 {
		b.must(b.b.Copy(b.ctx, 1, 7, 1, b.a))
		b.same(1, sums)
	}
	b.must(b.a.Write(b.ctx, 1, 7, 1, 0, slice('y'), false))
	b.wants(b.b.Copy(b.ctx, 1, 7, 1, b.a), disk.ErrExists)
	b.reads(b.b, 1, 7, 0, slice(0))
	b.must(b.b.Remove(b.ctx, 1, 7))
	b.must(b.b.Copy(b.ctx, 1, 7, 1, b.a))
	b.reads(b.b, 1, 7, 0, slice('y'))

	// What an unfinished copy left is replaced.
	b.must(b.b.Remove(b.ctx, 1, 7))
	b.must(b.b.Create(b.ctx, 1, 9, disk.Unfinished))
	b.must(b.b.Write(b.ctx, 1, disk.Unfinished, 1, disk.BlockSize, slice('z'), false))
	wantsFacts(b, b.b.Read(b.ctx, 1, 7, 0, slice(0)), &disk.GenerationError{Group: 1, Have: disk.Unfinished, Asked: 7})
	b.wants(b.b.Read(b.ctx, 1, disk.Unfinished, 0, slice(0)), disk.ErrUnfinished)
	b.wants(b.b.Raise(b.ctx, 1, 7), disk.ErrUnfinished)
	b.must(b.b.Copy(b.ctx, 1, 7, 1, b.a))
	b.reads(b.b, 1, 7, disk.BlockSize, slice(0))
}

func copyRefused(b *bench) {
	b.filled(1)
	err := b.b.Copy(b.ctx, 1, 6, 1, b.a)
	b.wants(err, dataserver.ErrSource)
	wantsFacts(b, err, &disk.GenerationError{Group: 1, Have: 7, Asked: 6})
	err = b.b.Copy(b.ctx, 2, 7, 1, b.a)
	b.wants(err, dataserver.ErrSource)
	b.wants(err, disk.ErrNotFound)

	b.must(b.b.Fence(b.ctx, 9, 4))
	err = b.b.Copy(b.ctx, 1, 7, 3, b.a)
	wantsFacts(b, err, &disk.FenceError{VDisk: 9, Token: 3, Highest: 4})
	if errors.Is(err, dataserver.ErrSource) {
		b.Errorf("the source is blamed: %v", err)
	}
	_, err = b.b.Stat(b.ctx, 1)
	b.wants(err, disk.ErrNotFound)
	b.must(b.b.Copy(b.ctx, 1, 7, 4, b.a))
}

// copyFromRot: no copy is made of what cannot be trusted.
func copyFromRot(b *bench) {
	b.rot(1, 300-256)
	err := b.b.Copy(b.ctx, 1, 1, 1, b.a)
	b.wants(err, dataserver.ErrSource)
	wantsFacts(b, err, &disk.SliceError{Group: 1, Slice: 300 - 256, Condition: disk.Rotten})
	_, err = b.b.Stat(b.ctx, 1)
	b.wants(err, disk.ErrNotFound)
}

// copyFails: a copy that fails half way leaves nothing that can be read.
func copyFails(b *bench) {
	b.filled(1)
	for _, at := range []string{"allocate", "sync"} {
		writes := 0
		b.files[1].Fault(func(op, name string) error {
			if op == at && strings.HasSuffix(name, disk.GroupID(1).String()) {
				writes++
				return syscall.EIO
			}
			return nil
		})
		if err := b.b.Copy(b.ctx, 1, 7, 1, b.a); !errors.Is(err, syscall.EIO) || writes == 0 {
			b.Fatalf("%s: got %v", at, err)
		}
		b.files[1].Fault(nil)
		if err := b.b.Read(b.ctx, 1, 7, 0, slice(0)); err == nil {
			b.Fatalf("%s: it can be read", at)
		}
	}
}
