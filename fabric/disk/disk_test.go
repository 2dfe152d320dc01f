package disk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

func identity(quota int64) disk.Identity {
	return disk.Identity{Cluster: "c", Disk: "d1", Tier: disk.SSD, Quota: quota, Log: disk.MinLog, Salt: 77}
}

// fresh is a new disk in memory, with one group 1 of vDisk 1.
func fresh(t *testing.T, quota int64) (*disktest.FS, *disk.Disk) {
	t.Helper()
	fs := disktest.New(quota+4<<20, dir)
	must(t, disk.Format(fs, dir, identity(quota)))
	d := reopen(t, fs)
	must(t, d.Create(1, 1, 1))
	return fs, d
}

func reopen(t *testing.T, fs *disktest.FS) *disk.Disk {
	t.Helper()
	d, err := disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c"})
	must(t, err)
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func wantsType[E error](t *testing.T, err error) E {
	t.Helper()
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a %T", err, e)
	}
	return e
}

func slice(b byte) []byte { return bytes.Repeat([]byte{b}, disk.SliceSize) }

func reads(t *testing.T, d *disk.Disk, offset int64, want []byte) {
	t.Helper()
	buf := make([]byte, len(want))
	must(t, d.Read(1, 1, offset, buf))
	if !bytes.Equal(buf, want) {
		t.Fatalf("at %d: read %x…, want %x…", offset, buf[:8], want[:8])
	}
}

func TestNeverWrittenIsZeros(t *testing.T) {
	_, d := fresh(t, 16<<20)
	reads(t, d, disk.GroupSize-100, make([]byte, 100))
	must(t, d.Write(1, 1, 1, 5000, []byte("hello"), false))
	reads(t, d, 4998, []byte("\x00\x00hello\x00\x00"))
	must(t, d.Drain())
	reads(t, d, 4998, []byte("\x00\x00hello\x00\x00"))
}

func TestLargeOverSmallOverLarge(t *testing.T) {
	_, d := fresh(t, 16<<20)
	large := bytes.Repeat([]byte("large..."), 40<<10)
	must(t, d.Write(1, 1, 1, 100, large, false))
	must(t, d.Write(1, 1, 1, 8192, slice('s'), false))
	reads(t, d, 8192, slice('s'))
	reads(t, d, 100, large[:8092])
	must(t, d.Write(1, 1, 1, 100, large, true))
	reads(t, d, 100, large)
	must(t, d.Drain())
	reads(t, d, 100, large)
}

func TestDirectoryOfAnother(t *testing.T) {
	fs := disktest.New(64<<20, dir)
	_, err := disk.Open(fs, dir, disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrWiped)
	must(t, disk.Format(fs, dir, identity(16<<20)))
	wants(t, disk.Format(fs, dir, identity(16<<20)), disk.ErrNotEmpty)

	_, err = disk.Open(fs, dir, disk.Options{Cluster: "other"})
	wants(t, err, disk.ErrOtherDisk)
	_, err = disk.Open(fs, dir, disk.Options{Cluster: "c", Disk: "d2"})
	wants(t, err, disk.ErrOtherDisk)

	d, err := disk.Open(fs, dir, disk.Options{Cluster: "c", Disk: "d1"})
	must(t, err)
	_, err = disk.Open(fs, dir, disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrInUse)
	must(t, d.Close())
	wants(t, d.Sync(), disk.ErrClosed)

	must(t, fs.Remove(dir+"/identity"))
	_, err = disk.Open(fs, dir, disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrWiped)
}

func TestBadIdentity(t *testing.T) {
	for name, spoil := range map[string]func(*disk.Identity){
		"no cluster": func(id *disk.Identity) { id.Cluster = "" },
		"no name":    func(id *disk.Identity) { id.Disk = "" },
		"tier":       func(id *disk.Identity) { id.Tier = "tape" },
		"small log":  func(id *disk.Identity) { id.Log = 1000 },
		"odd log":    func(id *disk.Identity) { id.Log = disk.MinLog + 1 },
		"quota 0":    func(id *disk.Identity) { id.Quota = 0 },
		"negative":   func(id *disk.Identity) { id.Quota = -5 },
		"no salt":    func(id *disk.Identity) { id.Salt = 0 },
	} {
		fs := disktest.New(64<<20, dir)
		id := identity(16 << 20)
		spoil(&id)
		if disk.Format(fs, dir, id) == nil {
			t.Errorf("%s: formatted", name)
		}
		left := 0
		must(t, fs.List(dir, func(string) error { left++; return nil }))
		if left > 0 {
			t.Errorf("%s: %d files are left", name, left)
		}
	}
}

func TestLessSpaceThanQuota(t *testing.T) {
	fs := disktest.New(15<<20, dir)
	wants(t, disk.Format(fs, dir, identity(16<<20)), disk.ErrSpace)
	must(t, disk.Format(fs, dir, identity(12<<20)))
	d := reopen(t, fs)
	wants(t, d.SetQuota(16<<20), disk.ErrSpace)
	must(t, d.SetQuota(14<<20))
	must(t, d.Close())
	if got := reopen(t, fs).Identity().Quota; got != 14<<20 {
		t.Errorf("quota is %d after reopening", got)
	}
}

// A truncated group gives its space back, keeps the rest, and can be written again.
func TestTruncate(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	empty := d.Usage().Used
	whole := bytes.Repeat([]byte("whole..."), disk.GroupSize/8)
	must(t, d.Write(1, 1, 1, 0, whole, true))
	must(t, d.Write(1, 1, 1, 3*disk.BlockSize, slice('s'), false)) // in the log
	wantsType[*disk.GenerationError](t, d.Truncate(1, 2, 1))
	wants(t, d.Truncate(1, 1, 5), disk.ErrRange)
	wants(t, d.Truncate(2, 1, 1), disk.ErrNotFound)
	for range 2 {
		must(t, d.Truncate(1, 1, 1))
		reads(t, d, 0, whole[:disk.BlockSize])
		reads(t, d, disk.BlockSize, make([]byte, 3*disk.BlockSize))
		if used := d.Usage().Used - empty; used != disk.BlockSize {
			t.Errorf("%d bytes are in use", used)
		}
		must(t, d.Close())
		d = reopen(t, fs)
	}
	must(t, d.Write(1, 1, 1, 2*disk.BlockSize, slice('n'), true))
	reads(t, d, 2*disk.BlockSize, slice('n'))
	reads(t, d, disk.BlockSize, make([]byte, disk.BlockSize))
	if used := d.Usage().Used - empty; used != 3*disk.BlockSize {
		t.Errorf("%d bytes are in use", used)
	}
}

// Where the log tells nothing of what is given back, others' writes stay in it: a drain would have them wait.
func TestTruncateLeavesTheLog(t *testing.T) {
	_, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 1, 0, bytes.Repeat([]byte("whole..."), disk.GroupSize/8), true))
	must(t, d.Drain())
	must(t, d.Write(1, 1, 1, 0, slice('l'), false))
	must(t, d.Create(2, 1, 1))
	must(t, d.Write(2, 1, 1, 0, slice('o'), false))
	before := d.Usage().InLog
	must(t, d.Truncate(1, 1, 1))
	if now := d.Usage().InLog; now != before || now == 0 {
		t.Errorf("the log has %d bytes, %d before", now, before)
	}
	reads(t, d, 0, slice('l'))
	reads(t, d, disk.BlockSize, make([]byte, disk.BlockSize))
}

// A group whose file a stranger has removed is not found by who looks at it in full, and can be removed and made again.
func TestRemovedByAStranger(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	before := d.Usage()
	must(t, d.Create(2, 1, 1))
	must(t, d.Write(2, 1, 1, 0, slice('a'), true))
	must(t, d.Sync())
	must(t, fs.Remove(filepath.Join(dir, "groups", disk.GroupID(2).String())))
	_, err := d.Verify(2)
	wants(t, err, disk.ErrNotFound)
	must(t, d.Remove(2, 1))
	if now := d.Usage(); now.Used != before.Used || now.Groups != before.Groups {
		t.Errorf("%+v, before %+v", now, before)
	}
	must(t, d.Drain()) // the log tells nothing of it any more: it may not come back
	_, err = reopen(t, fs.Cut(rand.New(rand.NewPCG(1, 1)), 0)).Stat(2)
	wants(t, err, disk.ErrNotFound)
	must(t, d.Create(2, 1, 1))
	must(t, d.Close())
	reopen(t, fs)
}

// TestQuota: a write beyond the quota changes nothing, a smaller one goes on, and
// what the log holds can always be drained.
func TestQuota(t *testing.T) {
	_, d := fresh(t, disk.MinLog+5<<20)
	must(t, d.Write(1, 1, 1, 3<<20, slice('a'), false))
	before := d.Usage()
	must(t, d.Create(2, 1, 1))
	full := wantsType[*disk.QuotaError](t, d.Write(2, 1, 1, 1<<20, slice('b'), false))
	if full.Asked != 2<<20 {
		t.Errorf("asked for %d", full.Asked)
	}
	if now := d.Usage(); now.Used != before.Used+disk.SlicesStart || now.Used > now.Quota {
		t.Errorf("%+v, before %+v", now, before)
	}
	must(t, d.Write(1, 1, 1, 0, slice('c'), false))
	must(t, d.Drain())
	must(t, d.Remove(1, 1))
	must(t, d.Write(2, 1, 1, 1<<20, slice('b'), false))
}

// TestFullFileSystem: others took the space that the quota promised.
func TestFullFileSystem(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 1, 0, slice('a'), false))
	other, err := fs.Create(dir + "/other")
	must(t, err)
	free, err := fs.Free(dir)
	must(t, err)
	must(t, other.Allocate(free))
	used := d.Usage().Used
	wants(t, d.Write(1, 1, 1, 2<<20, slice('b'), false), disk.ErrSpace)
	wants(t, d.Create(2, 1, 1), disk.ErrSpace)
	if d.Usage().Used != used {
		t.Error("what was refused is charged")
	}
	must(t, d.Write(1, 1, 1, 8192, slice('c'), true))
	must(t, d.Drain())
	reads(t, d, 0, append(slice('a'), slice(0)...))
	reads(t, d, 8192, slice('c'))
	wants(t, d.Read(2, 1, 0, make([]byte, 1)), disk.ErrNotFound)
}

func TestGenerations(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Raise(1, 5))
	stale := wantsType[*disk.GenerationError](t, d.Write(1, 1, 1, 0, slice('a'), false))
	if stale.Have != 5 || stale.Asked != 1 {
		t.Errorf("%+v", stale)
	}
	wantsType[*disk.GenerationError](t, d.Read(1, 6, 0, make([]byte, 1)))
	wantsType[*disk.GenerationError](t, d.Raise(1, 4))
	d = reopen(t, fs.Kill())
	must(t, d.Write(1, 5, 1, 0, slice('a'), false))
	wantsType[*disk.GenerationError](t, d.Remove(1, 4))
	must(t, d.Remove(1, 7))
	wants(t, d.Raise(1, 8), disk.ErrNotFound)
}

func TestSealed(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 3, 0, slice('a'), false))
	wantsType[*disk.FenceError](t, d.Seal(1, 1, 2))
	must(t, d.Seal(1, 1, 3))
	must(t, d.Seal(1, 1, 3))
	wants(t, d.Write(1, 1, 3, 0, slice('b'), false), disk.ErrSealed)
	d = reopen(t, fs.Kill())
	wants(t, d.Write(1, 1, 3, 0, slice('b'), false), disk.ErrSealed)
	reads(t, d, 0, slice('a'))
	info, err := d.Stat(1)
	if err != nil || !info.Sealed || info.Written != 1 || info.VDisk != 1 || info.Generation != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestFence: a lease that was taken over stays so, for all groups of its vDisk and no other.
func TestFence(t *testing.T) {
	fs, d := fresh(t, 32<<20)
	must(t, d.Create(2, 1, 1))
	must(t, d.Create(3, 9, 1))
	must(t, d.Write(1, 1, 4, 0, slice('a'), false))
	must(t, d.Fence(1, 5))
	for range 2 {
		fenced := wantsType[*disk.FenceError](t, d.Write(2, 1, 4, 0, slice('b'), false))
		if fenced.Highest != 5 || fenced.VDisk != 1 {
			t.Errorf("%+v", fenced)
		}
		must(t, d.Sync())
		d = reopen(t, fs.Kill())
	}
	must(t, d.Write(3, 1, 1, 0, slice('c'), false))
	must(t, d.Write(2, 1, 6, 0, slice('b'), false))
	wantsType[*disk.FenceError](t, d.Fence(1, 5))
}

func TestOutsideTheGroup(t *testing.T) {
	_, d := fresh(t, 16<<20)
	for _, part := range []struct {
		offset int64
		n      int
	}{{-1, 1}, {0, 0}, {disk.GroupSize, 1}, {disk.GroupSize - 1, 2}, {1 << 62, 1}, {0, disk.GroupSize + 1}} {
		wants(t, d.Write(1, 1, 1, part.offset, make([]byte, part.n), false), disk.ErrRange)
		wants(t, d.Read(1, 1, part.offset, make([]byte, part.n)), disk.ErrRange)
	}
	wants(t, d.Salvage(1, 1, disk.SlicesPerGroup, make([]byte, disk.SliceSize)), disk.ErrRange)
}

// TestRot: a flipped bit is found by whoever reads the slice, and heals by writing all of it.
func TestRot(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 1, 0, bytes.Repeat([]byte{'a'}, 5*disk.SliceSize), false))
	must(t, d.Drain())
	fs.Flip(dir+"/groups/"+disk.GroupID(1).String(), (disk.SlicesStart+2*disk.SliceSize+77)*8)

	bad := wantsType[*disk.SliceError](t, d.Read(1, 1, 0, make([]byte, 5*disk.SliceSize)))
	if *bad != (disk.SliceError{Group: 1, Slice: 2, Condition: disk.Rotten}) {
		t.Errorf("%+v", bad)
	}
	found, err := d.Verify(1)
	if err != nil || len(found) != 1 || *found[0] != *bad {
		t.Errorf("%v, %v", found, err)
	}
	wantsType[*disk.SliceError](t, d.Write(1, 1, 1, 2*disk.SliceSize+5, []byte("part"), false))
	wantsType[*disk.SliceError](t, d.Salvage(1, 1, 2, make([]byte, disk.SliceSize)))
	reads(t, d, 3*disk.SliceSize, slice('a'))
	must(t, d.Write(1, 1, 1, 2*disk.SliceSize, slice('b'), false))
	reads(t, d, 2*disk.SliceSize, slice('b'))
}

// TestRottenHeader: one copy is enough, and Verify tells; with both gone the group
// can be removed and nothing else.
func TestRottenHeader(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 1, 0, slice('a'), false))
	must(t, d.Close())
	file := dir + "/groups/" + disk.GroupID(1).String()
	fs.Flip(file, 16*8)
	d = reopen(t, fs)
	reads(t, d, 0, slice('a'))
	found, err := d.Verify(1)
	if err != nil || len(found) != 1 || found[0].Slice != disk.Header {
		t.Errorf("%v, %v", found, err)
	}
	must(t, d.Close())
	fs.Flip(file, (2048+20)*8)
	d = reopen(t, fs)
	bad := wantsType[*disk.SliceError](t, d.Read(1, 1, 0, make([]byte, 1)))
	if bad.Slice != disk.Header {
		t.Errorf("%+v", bad)
	}
	wantsType[*disk.SliceError](t, d.Write(1, 1, 1, 0, slice('b'), false))
	wants(t, d.Create(1, 1, 2), disk.ErrExists)
	must(t, d.Remove(1, 1))
	must(t, d.Create(1, 1, 2))
}

// TestFailedSync: after one no write is taken, and reads go on.
func TestFailedSync(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 1, 0, slice('a'), false))
	broken := errors.New("broken")
	fs.Fault(func(op, name string) error {
		if op == "sync" {
			return broken
		}
		return nil
	})
	wants(t, d.Sync(), broken)
	fs.Fault(nil)
	wants(t, d.Write(1, 1, 1, 0, slice('b'), false), disk.ErrFailed)
	wants(t, d.Sync(), disk.ErrFailed)
	wants(t, d.Create(2, 1, 1), disk.ErrFailed)
	reads(t, d, 0, slice('a'))
	d = reopen(t, fs.Kill())
	must(t, d.Write(1, 1, 1, 0, slice('b'), true))
}

// TestRemovedComesNotBack: a group that is made again under its old name has nothing of what
// the log still holds of the first.
func TestRemovedComesNotBack(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Write(1, 1, 1, 0, slice('a'), true))
	must(t, d.Remove(1, 1))
	must(t, d.Create(1, 1, 1))
	must(t, d.Write(1, 1, 1, 8192, slice('b'), true))
	d = reopen(t, fs.Kill())
	reads(t, d, 0, slice(0))
	reads(t, d, 8192, slice('b'))
}

func TestListAndUsage(t *testing.T) {
	fs, d := fresh(t, 64<<20)
	for id := disk.GroupID(2); id <= 9; id++ {
		must(t, d.Create(id, 1, 1))
	}
	must(t, d.Remove(5, 1))
	must(t, d.Sync())
	for range 2 {
		var ids []disk.GroupID
		must(t, d.List(func(id disk.GroupID) error { ids = append(ids, id); return nil }))
		slices.Sort(ids)
		if !slices.Equal(ids, []disk.GroupID{1, 2, 3, 4, 6, 7, 8, 9}) || d.Usage().Groups != 8 {
			t.Errorf("%v, %+v", ids, d.Usage())
		}
		d = reopen(t, fs.Kill())
	}
}

// TestManyGroups writes to more groups than may be open.
func TestManyGroups(t *testing.T) {
	fs := disktest.New(256<<20, dir)
	must(t, disk.Format(fs, dir, identity(200<<20)))
	d, err := disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c", OpenGroups: 4})
	must(t, err)
	for id := disk.GroupID(1); id <= 100; id++ {
		must(t, d.Create(id, 1, 1))
		must(t, d.Write(id, 1, 1, 0, bytes.Repeat(slice(byte(id)), int(id)%2*40+1), false))
	}
	must(t, d.Close())
	d, err = disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c", OpenGroups: 4})
	must(t, err)
	for id := disk.GroupID(1); id <= 100; id++ {
		buf := make([]byte, disk.SliceSize)
		must(t, d.Read(id, 1, 0, buf))
		if !bytes.Equal(buf, slice(byte(id))) {
			t.Errorf("group %s is wrong", id)
		}
	}
}

// TestOS does the plain things on the machine's own file system.
func TestOS(t *testing.T) {
	at := t.TempDir()
	must(t, disk.Format(disk.OS{}, at, identity(64<<20)))
	d, err := disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
	must(t, err)
	_, err = disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrInUse)
	must(t, d.Create(1, 1, 1))
	must(t, d.Write(1, 1, 1, 100, bytes.Repeat([]byte("x"), 300<<10), true))
	must(t, d.Write(1, 1, 1, 3<<20, slice('y'), true))
	must(t, d.Close())
	d, err = disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
	must(t, err)
	reads(t, d, 99, append([]byte{0}, bytes.Repeat([]byte("x"), 300<<10)...))
	reads(t, d, 3<<20, slice('y'))
	if info, err := os.Stat(filepath.Join(at, "groups", disk.GroupID(1).String())); err != nil || info.Size() != disk.SlicesStart+4<<20 {
		t.Errorf("%v, %v", info.Size(), err)
	}
	must(t, d.Remove(1, 1))
	must(t, d.Close())
	must(t, os.Remove(filepath.Join(at, "groups")))
	_, err = disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrWiped)
	_, err = disk.Open(disk.OS{}, t.TempDir(), disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrWiped)
}

// TestSeenStays: a fence whose raising failed, and that was seen all the same after
// the process came back, is not gone after a power cut.
func TestSeenStays(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Fence(1, 1))
	broken := errors.New("broken")
	fs.Fault(func(op, name string) error {
		if op == "syncdir" {
			return broken
		}
		return nil
	})
	wants(t, d.Fence(1, 2), broken)
	fs.Fault(nil)
	fs = fs.Kill()
	seen := wantsType[*disk.FenceError](t, reopen(t, fs).Fence(1, 0)).Highest
	fs = fs.Cut(rand.New(rand.NewPCG(1, 1)), 0)
	if now := wantsType[*disk.FenceError](t, reopen(t, fs).Fence(1, 0)).Highest; seen != 2 || now != seen {
		t.Errorf("token %d was seen, then %d", seen, now)
	}
}

// TestStaleTail: a log whose slots are of an earlier time is refused, not read from there.
func TestStaleTail(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	log, err := fs.Open(dir + "/log")
	must(t, err)
	slot := make([]byte, 64)
	_, err = log.ReadAt(slot, 0)
	must(t, err)
	for i := range 200 {
		must(t, d.Write(1, 1, 1, 0, slice(byte(i)), false))
	}
	must(t, d.Sync())
	for _, at := range []int64{0, 4096} {
		_, err = log.WriteAt(slot, at)
		must(t, err)
	}
	_, err = disk.OpenQuiet(fs.Kill(), dir, disk.Options{Cluster: "c"})
	wants(t, err, disk.ErrDamaged)
}

// TestLeftBehind: a record behind the torn end of the log is not taken for one of
// the records that come to stand before it.
func TestLeftBehind(t *testing.T) {
	fs, d := fresh(t, 16<<20)
	must(t, d.Drain())
	log, err := fs.Open(dir + "/log")
	must(t, err)
	slot := make([]byte, 64)
	_, err = log.ReadAt(slot, 0)
	must(t, err)
	head := binary.LittleEndian.Uint64(slot[24:]) + uint64(d.Usage().InLog)
	must(t, d.Write(1, 1, 1, 0, slice('a'), false))
	must(t, d.Write(1, 1, 1, disk.SliceSize, slice('b'), false))
	_, err = log.WriteAt(make([]byte, disk.SliceSize), 8192+int64(head%disk.MinLog)) // all but the second header
	must(t, err)

	fs = fs.Kill()
	d = reopen(t, fs)
	reads(t, d, 0, slice(0))
	reads(t, d, disk.SliceSize, slice(0))
	must(t, d.Write(1, 1, 1, 0, slice('c'), false))
	d = reopen(t, fs.Kill())
	reads(t, d, 0, slice('c'))
	reads(t, d, disk.SliceSize, slice(0))
}
