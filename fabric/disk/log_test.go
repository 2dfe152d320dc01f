package disk_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// FuzzLog opens a disk whose log has anything in it, with checksums and positions put right so
// that it is believed: the disk opens or is refused as damaged, and its group reads or says why not.
func FuzzLog(f *testing.F) {
	_, d := fuzzDisk(f)
	if err := d.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), []byte{})
	unit := make([]byte, 128)
	binary.LittleEndian.PutUint64(unit[16:], 1) // group
	binary.LittleEndian.PutUint32(unit[40:], 4096)
	unit[46], unit[48] = 1, 1 // one slice, logged
	f.Add(uint8(34), unit)
	f.Fuzz(func(t *testing.T, stride uint8, data []byte) {
		fs, d := fuzzDisk(t)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		believable(t, fs, int64(stride), data)
		d, err := disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c"})
		if err != nil {
			if !errors.Is(err, disk.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		var bad *disk.SliceError
		if err := d.Read(1, 1, 0, make([]byte, disk.GroupSize)); err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
		if err := d.Write(1, 1, 1, 0, slice('b'), true); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func fuzzDisk(t testing.TB) (*disktest.FS, *disk.Disk) {
	fs := disktest.New(16<<20, dir)
	if err := disk.Format(fs, dir, identity(12<<20)); err != nil {
		t.Fatal(err)
	}
	d, err := disk.OpenQuiet(fs, dir, disk.Options{Cluster: "c"})
	if err == nil {
		err = d.Create(1, 1, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fs, d
}

// believable writes data to the ring in units of 128 bytes, each stride units behind the last, as headers.
func believable(t *testing.T, fs disk.FS, stride int64, data []byte) {
	log, err := fs.Open(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	slot := make([]byte, 64)
	if _, err := log.ReadAt(slot, 0); err != nil {
		t.Fatal(err)
	}
	tail := binary.LittleEndian.Uint64(slot[24:])
	at := int64(0)
	for ; len(data) > 0 && at < disk.MinLog; at += (1 + stride) * 128 {
		unit := make([]byte, 128)
		data = data[copy(unit, data):]
		binary.LittleEndian.PutUint64(unit, 77)
		binary.LittleEndian.PutUint64(unit[8:], tail+uint64(at))
		binary.LittleEndian.PutUint32(unit[124:], crc32.Checksum(unit[:124], crc32.MakeTable(crc32.Castagnoli)))
		if _, err := log.WriteAt(unit, 8192+(int64(tail)+at)%disk.MinLog); err != nil {
			t.Fatal(err)
		}
	}
}
