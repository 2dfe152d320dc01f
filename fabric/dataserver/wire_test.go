package dataserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gleaner/fabric/disk"
)

// TestFormatsPage compares the examples of the page with what the code sends.
func TestFormatsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/fabric-wire.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &pact{cluster: Cluster{ID: "c1"}, binding: make([]byte, 32)}
	for i := range p.cluster.Key {
		p.cluster.Key[i] = byte(i)
	}
	var nonces [2][nonceBytes]byte
	copy(nonces[0][:], bytes.Repeat([]byte{0xaa}, nonceBytes))
	copy(nonces[1][:], bytes.Repeat([]byte{0xbb}, nonceBytes))
	p.greeting, p.hello = encodeGreeting(nonces[0]), encodeHello(encodeGreeting(nonces[1]), "d7")
	id := disk.Identity{Cluster: "c1", Disk: "d7", Tier: disk.SSD, Quota: 1 << 30, Log: 64 << 20, Opened: 1234}
	text, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	write := head{op: opWrite, sync: true, number: 3, group: 5, generation: 2, token: 4, offset: 8192, payload: 5}.encode(nil)
	failure := encodeError(fmt.Errorf("disk: write group: %w", &disk.FenceError{VDisk: 9, Token: 4, Highest: 6}))
	beat, err := json.Marshal(Beat{Busy: true, Disks: []DiskBeat{{Identity: id, Used: 67121152, Free: 5 << 30, Groups: 1, Age: 4e8}}})
	if err != nil {
		t.Fatal(err)
	}
	from, err := json.Marshal(source{"tls:10.0.0.7:7071", "d8"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"greeting": dump(p.greeting),
		"hello":    dump(slices.Concat(p.hello, p.clientProof())),
		"welcome":  dump(p.encodeWelcome(welcomed, text)),
		"write":    dump(append(write, "hello"...)),
		"answer":   dump(answer{status: statusDone, number: 3}.encode(nil)),
		"error":    dump(append(answer{statusError, 3, len(failure)}.encode(nil), failure...)),
		"sums":     dump(encodeSums(nil, []disk.Sum{{Written: true, CRC32C: 0x11223344}, {}, {Written: true, Condition: disk.Torn}})),
		"beat":     string(beat) + "\n",
		"source":   string(from) + "\n",
	} {
		if !strings.Contains(string(page), "```\n"+want+"```\n") {
			t.Errorf("%s: the page lacks\n%s", name, want)
		}
	}
	for kind, err := range named {
		if row := fmt.Sprintf("| %d | %v |", kind, err); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks %s", row)
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

// TestErrors: an error that crossed the wire is what it was to those who ask.
func TestErrors(t *testing.T) {
	err := fmt.Errorf("all at once: %w", errors.Join(
		&disk.SliceError{Group: 1, Slice: disk.Header, Condition: disk.Rotten}, &disk.GenerationError{Group: 1, Have: 2, Asked: 1 << 63},
		&disk.FenceError{VDisk: 3, Token: 4, Highest: 5}, &disk.QuotaError{Quota: 6, Used: 7, Asked: 8}, &os.PathError{Op: "write", Err: syscall.EDQUOT}))
	for _, e := range named {
		err = errors.Join(err, e)
	}
	got, ok := decodeError("a", encodeError(err))
	if !ok {
		t.Fatal("it cannot be read")
	}
	var slice, slice2 *disk.SliceError
	var generation, generation2 *disk.GenerationError
	var fence, fence2 *disk.FenceError
	var quota, quota2 *disk.QuotaError
	for _, both := range [][2]any{{&slice, &slice2}, {&generation, &generation2}, {&fence, &fence2}, {&quota, &quota2}} {
		if !errors.As(err, both[0]) || !errors.As(got, both[1]) || !reflect.DeepEqual(both[0], both[1]) {
			t.Errorf("%T is another", both[0])
		}
	}
	if !errors.Is(got, syscall.EDQUOT) || errors.Is(got, syscall.EIO) || errors.Is(got, ErrLost) {
		t.Errorf("got %v", got)
	}
	for _, e := range named {
		if !errors.Is(got, e) {
			t.Errorf("it is not %v", e)
		}
	}
	if plain, _ := decodeError("a", encodeError(errors.New(strings.Repeat("long", 1000)))); plain == nil || len(plain.facts) > 0 || len(plain.text) != mostText {
		t.Errorf("got %v", plain)
	}
	if unknown, _ := decodeError("a", appendFact([]byte{0, 0}, 200, 1, 2, 3)); unknown == nil || len(unknown.facts) > 0 {
		t.Errorf("got %v", unknown)
	}
}

// FuzzFrames: what a decoder takes, the encoder writes again.
func FuzzFrames(f *testing.F) {
	f.Add(head{op: opRead, number: 1, group: 2, generation: 3, offset: 4, count: 5}.encode(nil))
	f.Add(head{op: opWrite, sync: true, token: 6, payload: 9}.encode(nil))
	f.Add(append(answer{statusError, 7, 3}.encode(nil), 1, 2, 3))
	f.Add(encodeError(&disk.SliceError{Group: 1, Slice: 2, Condition: disk.Torn}))
	f.Add(encodeSums(nil, make([]disk.Sum, disk.SlicesPerGroup)))
	f.Add(encodeInfo(disk.Info{VDisk: 1, Sealed: true}))
	f.Add(encodeMask(disk.Mask{1, 2, 3}))
	f.Add(encodeFlaws([]*disk.SliceError{{Group: 1, Slice: -1, Condition: disk.Rotten}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= headBytes {
			if h, err := decodeHead(data[:headBytes]); err == nil && !bytes.Equal(h.encode(nil), data[:headBytes]) {
				t.Error("a head is not itself")
			}
		}
		if len(data) >= answerBytes {
			if a, err := decodeAnswer(data[:answerBytes]); err == nil && !bytes.Equal(a.encode(nil), data[:answerBytes]) {
				t.Error("an answer is not itself")
			}
		}
		if e, ok := decodeError("a", data); ok {
			again, ok := decodeError("a", encodeError(e))
			if !ok || !strings.HasPrefix(e.Error(), again.text) {
				t.Fatalf("%v has become %v", e, again)
			}
			for _, n := range named {
				if errors.Is(e, n) != errors.Is(again, n) {
					t.Errorf("%v has become %v", e, again)
				}
			}
		}
		if sums, err := decodeSums(data); err == nil {
			again, err := decodeSums(encodeSums(nil, sums))
			if err != nil || !slices.Equal(again, sums) {
				t.Error("sums are not themselves")
			}
		}
		if info, err := decodeInfo(data); err == nil {
			if again, err := decodeInfo(encodeInfo(info)); err != nil || again != info {
				t.Error("an info is not itself")
			}
		}
		if m, err := decodeMask(data); err == nil && !bytes.Equal(encodeMask(m), data) {
			t.Error("a mask is not itself")
		}
		if found, err := decodeFlaws(1, data); err == nil && len(found) != len(data)/flawBytes {
			t.Error("flaws got lost")
		}
		if r, err := decodePut(head{group: 1, generation: 2}, data); err == nil && len(r.data)%disk.SliceSize != 0 {
			t.Error("a replica of half slices")
		}
		decodeGroups(data)
	})
}
