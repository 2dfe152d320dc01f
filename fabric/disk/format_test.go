package disk

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestFormatsPage compares the examples of the page with what the code writes.
func TestFormatsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/fabric-disk.md")
	if err != nil {
		t.Fatal(err)
	}
	id := Identity{Cluster: "c1", Disk: "d7", Tier: SSD, Quota: 1 << 30, Log: 64 << 20, Salt: 0x1122334455667788}
	entry := encodeTable(5, []entry{{written, 0x11223344}})[:entryBytes]
	unit := make([]byte, recordUnit)
	record{kind: logged, at: 4352, group: 5, first: 3, count: 1, body: SliceSize, synced: 128, placed: 64, sums: [mostSlices]uint32{0xaabbccdd}}.encode(id.Salt, unit)
	for name, want := range map[string]string{
		"identity": string(id.encode()),
		"header":   dump(header{group: 5, vdisk: 9, generation: 2, born: 4352, sealed: true}.encode()),
		"entry":    dump(entry),
		"slot":     dump(encodeSlot(id.Salt, 2, 8704)),
		"record":   dump(unit),
		"fences":   dump(encodeFences(map[VDiskID]uint64{9: 4})),
	} {
		if !strings.Contains(string(page), "```\n"+want+"```\n") {
			t.Errorf("%s: the page lacks\n%s", name, want)
		}
	}
}

// dump is 16 bytes a line.
func dump(data []byte) string {
	var out strings.Builder
	for at := 0; at < len(data); at += 16 {
		fmt.Fprintf(&out, "%04x  % x\n", at, data[at:min(at+16, len(data))])
	}
	return out.String()
}

// FuzzFormats: what a decoder takes, the encoder writes again, byte for byte.
func FuzzFormats(f *testing.F) {
	f.Add([]byte{})
	f.Add(Identity{Cluster: "c", Disk: "d", Tier: HDD, Quota: 1 << 30, Log: minLog, Salt: 1}.encode())
	f.Add(header{group: 1, generation: 3, sealed: true}.encode())
	f.Add(encodeFences(map[VDiskID]uint64{1: 2, 3: 4}))
	f.Add(encodeTable(1, []entry{{written, 7}, {torn, 0}, {rotten, 0}}))
	f.Add(encodeSlot(1, 2, 3))
	unit := make([]byte, recordUnit)
	record{kind: inPlace, group: 1, count: 20, body: sumsLength(20)}.encode(1, unit)
	f.Add(unit)
	f.Fuzz(func(t *testing.T, data []byte) {
		if id, err := decodeIdentity(data); err == nil && id.Check() != nil {
			t.Error("a bad identity was taken")
		}
		if h, ok := decodeHeader(data); ok {
			if again, ok := decodeHeader(h.encode()); !ok || again != h {
				t.Error("header is not itself")
			}
		}
		if fences, err := decodeFences(data); err == nil {
			if again, err := decodeFences(encodeFences(fences)); err != nil || !reflect.DeepEqual(again, fences) {
				t.Error("fences are not themselves")
			}
		}
		if r, ok := decodeRecord(1, data); ok {
			out := make([]byte, recordUnit)
			r.encode(1, out)
			if again, ok := decodeRecord(1, out); !ok || again != r {
				t.Error("record is not itself")
			}
		}
		if len(data) >= slotBytes {
			decodeSlot(1, data)
		}
		table := make([]byte, tableBytes)
		copy(table, data)
		if again := encodeTable(1, decodeTable(1, table)); !bytes.Equal(decodedTable(again), decodedTable(table)) {
			t.Error("table is not itself")
		}
	})
}

// decodedTable makes entries that prove nothing alike: all are rotten.
func decodedTable(table []byte) []byte { return encodeTable(1, decodeTable(1, table)) }

// TestEntryProvesItself: an entry counts for its own slice of its own group.
func TestEntryProvesItself(t *testing.T) {
	e := entry{written, 0x11223344}
	data := encodeTable(5, []entry{e})
	if got := newProver(5).decode(0, data); got != e {
		t.Errorf("is %+v", got)
	}
	if got := newProver(5).decode(1, data); got.state != rotten {
		t.Errorf("in another slice it is %+v", got)
	}
	if got := newProver(6).decode(0, data); got.state != rotten {
		t.Errorf("in another group it is %+v", got)
	}
}
