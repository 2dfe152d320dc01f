package maps

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
	"gleaner/kv"
	"gleaner/kv/mem"
)

func newMaps(t *testing.T) *Maps {
	t.Helper()
	m, err := Open(context.Background(), mem.New(), kv.NewWriter(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFormats compares the examples of the page with what the code writes and reads.
func TestFormats(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/fabric.md")
	if err != nil {
		t.Fatal(err)
	}
	g := group.Group{VDisk: 7, Generation: 4, Wanted: 3, Good: []cluster.DiskID{"a", "b"}, Building: "c"}
	for what, bytes := range map[string][]byte{
		"block":         encodeBlock(Block{Pile: []ExtentID{{Group: 5, Quarter: 2}, {Group: 3}}}),
		"heir's block":  encodeBlock(Block{Pile: []ExtentID{{Group: 5, Quarter: 2}, {Group: 3}}, Inherited: 1}),
		"extent":        encodeExtent(Extent{Group: 5, Quarter: 2}),
		"packed extent": encodeExtent(packedExample()),
		"group":         encodeGroup(g),
		"packed group":  encodeGroup(group.Group{VDisk: 7, Generation: 1, Wanted: 3, Good: []cluster.DiskID{"a", "b", "c"}, Level: uint8(pack.Better), Tenants: []ExtentID{{Group: 5, Quarter: 2}}}),
		"coded group": encodeGroup(group.Group{VDisk: 7, Generation: 1, Wanted: 3, Good: []cluster.DiskID{"a", "b", "c"}, Level: uint8(pack.Better),
			Data: 2, Length: 4 << 20, Shards: []int{0, 2, 1}, Tenants: []ExtentID{{Group: 5, Quarter: 2}}}),
		"mark":   encodeMark(Mark{Synced: true, Opened: map[cluster.DiskID]uint64{"a": 9}}),
		"access": encodeAccess(tiering.Access{Read: 179452802, Written: 179452799, Reads: 0b101}),
	} {
		if !strings.Contains(string(page), dump(bytes)) {
			t.Errorf("the page has no %s as\n%s", what, dump(bytes))
		}
	}
	v := VDisk{ID: 7, Name: "v", Size: 1 << 30, Replicas: 3, Snapshot: true, Sealed: true, Parent: 3, Reach: 1 << 30,
		Created: time.Date(2026, time.November, 16, 12, 0, 0, 0, time.UTC)}
	if text, err := json.Marshal(v); err != nil || !strings.Contains(string(page), string(text)) {
		t.Errorf("the page has no vDisk as\n%s, %v", text, err)
	}
	s := Server{Name: "s1", Since: v.Created, Reimages: 2, Disks: map[string]cluster.DiskID{"/mnt/ssd1": "0a1b2c3d4e5f6071"}}
	if text, err := json.Marshal(s); err != nil || !strings.Contains(string(page), string(text)) {
		t.Errorf("the page has no server as\n%s, %v", text, err)
	}
}

// packedExample is an extent of two slices, the first of them zeros and the other not, in one piece of 300 bytes.
func packedExample() Extent {
	p := &Packed{Offset: 4096}
	p.Index.Written.Add(0)
	p.Index.Written.Add(9)
	p.Index.Lengths[1] = 300
	for i := range p.Print {
		p.Print[i] = byte(i)
	}
	return Extent{Group: 9, Packed: p}
}

// dump writes bytes as the page does.
func dump(data []byte) string {
	var out strings.Builder
	for at := 0; at < len(data); at += 16 {
		line := hex.EncodeToString(data[at:min(at+16, len(data))])
		out.WriteString(strings.ToLower(hex.EncodeToString([]byte{byte(at >> 8), byte(at)})) + " ")
		for ; line != ""; line = line[2:] {
			out.WriteString(" " + line[:2])
		}
		out.WriteString("\n")
	}
	return out.String()
}

// A name counts only if its vDisk has it too and is not removed; one that does not count is free.
func TestNames(t *testing.T) {
	ctx, m := context.Background(), newMaps(t)
	put := func(v VDisk, old kv.Version) kv.Version {
		t.Helper()
		version, err := m.SetVDisk(ctx, v, old)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	first := put(VDisk{ID: 1, Name: "a"}, kv.Version{})
	bound, err := m.Bind(ctx, "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Bind(ctx, "a", 2); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := m.Bind(ctx, "b", 1); err != nil { // a snapshot that is being made
		t.Fatal(err)
	}
	if _, err := m.Find(ctx, "b"); !errors.Is(err, ErrNotFound) {
		t.Error("a name counts that its vDisk does not have")
	}
	put(VDisk{ID: 2, Name: "a"}, kv.Version{})
	if _, err := m.Leads(ctx, "a", 2); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if err := m.Rebind(ctx, "a", bound, 2); err != nil {
		t.Fatal(err)
	}
	first = put(VDisk{ID: 1, Name: "b", Snapshot: true}, first)
	if v, err := m.Find(ctx, "b"); err != nil || v.ID != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	put(VDisk{ID: 1, Name: "b", Snapshot: true, Removed: true}, first)
	if _, err := m.Bind(ctx, "b", 2); err != nil {
		t.Errorf("the name of a removed vDisk is not free: %v", err)
	}
	if err := m.Unbind(ctx, "a", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Find(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// Blocks are read in order, part by part, and only those of the range.
func TestBlocks(t *testing.T) {
	ctx, m := context.Background(), newMaps(t)
	there := []int64{0, 5, BlocksPerPart - 1, BlocksPerPart, 3*BlocksPerPart + 7}
	for _, b := range there {
		if _, err := m.SetBlock(ctx, 1, b, Block{Pile: []ExtentID{{Group: disk.GroupID(b + 1), Quarter: 1}}}, kv.Version{}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.SetBlock(ctx, 2, b, Block{Opaque: true}, kv.Version{}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(first, end int64) (got []int64) {
		t.Helper()
		for first < end {
			var err error
			first, err = m.Blocks(ctx, 1, first, end, func(n int64, b Block, _ kv.Version) error {
				if b.Opaque || b.Pile[0].Group != disk.GroupID(n+1) {
					t.Errorf("block %d is %+v", n, b)
				}
				got = append(got, n)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	if got := read(0, 4*BlocksPerPart); !slices.Equal(got, there) {
		t.Errorf("%v", got)
	}
	if got := read(5, BlocksPerPart-1); !slices.Equal(got, []int64{5}) {
		t.Errorf("%v", got)
	}
	if got := read(1, BlocksPerPart+1); !slices.Equal(got, there[1:4]) {
		t.Errorf("%v", got)
	}
}

// What is kept of a group's use is read again, replaced, and gone with the group.
func TestAccess(t *testing.T) {
	ctx, m := context.Background(), newMaps(t)
	reads := func(id disk.GroupID, want tiering.Access) {
		t.Helper()
		if got, err := m.Access(ctx, id); err != nil || got != want {
			t.Errorf("group %s: %+v, %v, want %+v", id, got, err, want)
		}
	}
	reads(1, tiering.Access{})
	first, second := tiering.Access{Read: 7, Reads: 3}, tiering.Access{Written: 5}
	for range 2 {
		if err := m.SetAccess(ctx, map[disk.GroupID]tiering.Access{1: first, 2: second}); err != nil {
			t.Fatal(err)
		}
		reads(1, first)
		reads(2, second)
		first, second = second, first
	}
	if err := m.DeleteAccess(ctx, 1, 3); err != nil {
		t.Fatal(err)
	}
	reads(1, tiering.Access{})
	reads(2, tiering.Access{Read: 7, Reads: 3})
}

// Numbers are given out once, also by two that draw at the same time.
func TestDraw(t *testing.T) {
	ctx, store := context.Background(), mem.New()
	seen := map[uint64]bool{}
	for writer := range uint64(3) {
		m, err := Open(ctx, store, kv.NewWriter(writer+1))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 64, 2} {
			first, err := m.Draw(ctx, GroupIDs, n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(n) {
				if id := first + i; id == 0 || seen[id] {
					t.Errorf("%d is given out twice, or is zero", id)
				} else {
					seen[id] = true
				}
			}
		}
	}
}

// Records that are read are those that were written; any other bytes are ErrDamaged.
func FuzzRecords(f *testing.F) {
	f.Add(encodeBlock(Block{Pile: []ExtentID{{Group: 5, Quarter: 2}, {Group: 3}}, Opaque: true}))
	f.Add(encodeBlock(Block{Pile: []ExtentID{{Group: 5, Quarter: 2}, {Group: 3}}, Inherited: 1}))
	f.Add(encodeExtent(Extent{Group: 5, Quarter: 2}))
	f.Add(encodeGroup(group.Group{VDisk: 7, Generation: 4, Wanted: 3, Good: []cluster.DiskID{"a", "b"}, Building: "c", Dead: true}))
	f.Add(encodeExtent(packedExample()))
	f.Add(encodeGroup(group.Group{VDisk: 7, Generation: 4, Wanted: 2, Good: []cluster.DiskID{"a"}, Level: uint8(pack.Fast), Tenants: []ExtentID{{Group: 5, Quarter: 2}, {Group: 6}}}))
	f.Add(encodeGroup(group.Group{VDisk: 7, Generation: 4, Wanted: 3, Good: []cluster.DiskID{"a", "b"}, Level: uint8(pack.Best), Data: 2, Length: 4096, Shards: []int{2, 0}, Tenants: []ExtentID{{Group: 5}}}))
	f.Add(encodeMark(Mark{Opened: map[cluster.DiskID]uint64{"a": 9, "bb": 1}}))
	f.Add(encodeAccess(tiering.Access{Read: 5, Written: 3, Reads: 1}))
	f.Add([]byte(`{"name":"s1","since":"2026-11-16T12:00:00Z","reimages":2,"disks":{"/mnt/ssd1":"0a1b"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := decodeBlock(data); err == nil && !bytes.Equal(encodeBlock(b), data) {
			t.Errorf("block %x reads as %+v", data, b)
		}
		if e, err := decodeExtent(data); err == nil && !bytes.Equal(encodeExtent(e), data) {
			t.Errorf("extent %x reads as %+v", data, e)
		}
		if g, err := decodeGroup(data); err == nil && !bytes.Equal(encodeGroup(g), data) {
			t.Errorf("group %x reads as %+v", data, g)
		}
		if a, err := decodeAccess(data); err == nil && !bytes.Equal(encodeAccess(a), data) {
			t.Errorf("access %x reads as %+v", data, a)
		}
		if s, err := decodeServer(data); err == nil {
			text, err := json.Marshal(s)
			again, failed := decodeServer(text)
			if err != nil || failed != nil || !reflect.DeepEqual(again, s) {
				t.Errorf("server %s reads as %+v and then as %+v, %v, %v", data, s, again, err, failed)
			}
		}
		if m, err := decodeMark(1, data); err == nil {
			if again, err := decodeMark(1, encodeMark(m)); err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("mark %x reads as %v and then as %v, %v", data, m, again, err)
			}
		}
	})
}

// Who condemns a vDisk that no name leads to, and who is about to pass the name on to it: one of both fails.
func TestCondemn(t *testing.T) {
	ctx, m := context.Background(), newMaps(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(v VDisk) {
		_, err := m.SetVDisk(ctx, v, kv.Version{})
		must(err)
	}
	_, err := m.Bind(ctx, "a", 1)
	must(err)
	put(VDisk{ID: 1, Name: "a"})
	removed := func(id disk.VDiskID) bool {
		v, _, err := m.VDisk(ctx, id)
		must(err)
		return v.Removed
	}
	must(m.Condemn(ctx, 1))
	if removed(1) {
		t.Error("a vDisk is condemned that a name leads to")
	}
	led, err := m.Leads(ctx, "a", 1)
	must(err)
	put(VDisk{ID: 2, Name: "a", Parent: 1}) // as a snapshot is made
	must(m.Condemn(ctx, 2))
	if err := m.Rebind(ctx, "a", led, 2); !errors.Is(err, ErrExists) || !removed(2) {
		t.Errorf("a name was passed on to a vDisk that is condemned: %v", err)
	}
	if led, err = m.Leads(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	put(VDisk{ID: 3, Name: "a", Parent: 1})
	must(m.Rebind(ctx, "a", led, 3))
	must(m.Condemn(ctx, 3))
	if removed(3) {
		t.Error("a vDisk is condemned that got a name")
	}
}
