package flat

import (
	"bytes"
	"cmp"
	"testing"

	"gleaner/kv"
)

// FuzzOrder: flat keys sort as their keys do, and parse to them again.
func FuzzOrder(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), []byte("a\x00"), []byte(""))
	f.Add([]byte("\x00\xff"), []byte("\x00"), []byte("\x00"), []byte("\x01"))
	f.Add([]byte("\xff"), []byte("\xff"), []byte("\xff\xff"), []byte(nil))
	f.Fuzz(func(t *testing.T, part1, row1, part2, row2 []byte) {
		a, b := kv.Key{Part: part1, Row: row1}, kv.Key{Part: part2, Row: row2}
		flatA, flatB := Append(nil, a), Append([]byte{}, b)
		want := cmp.Or(bytes.Compare(part1, part2), bytes.Compare(row1, row2))
		if got := bytes.Compare(flatA, flatB); got != want {
			t.Errorf("%q and %q compare as %d, their flat forms as %d", a, b, want, got)
		}
		var p Parser
		part, row, err := p.Parse(flatA)
		if err != nil || !bytes.Equal(part, part1) || !bytes.Equal(row, row1) {
			t.Errorf("%q became %q, %q, %v", a, part, row, err)
		}
		if len(part1) == 0 {
			return // stands for no part in a range
		}
		lo, hi := Bounds([]byte("t"), kv.Range{Part: part1})
		inside := bytes.Compare(lo, append([]byte("t"), flatB...)) <= 0 && bytes.Compare(append([]byte("t"), flatB...), hi) < 0
		if inside != bytes.Equal(part1, part2) {
			t.Errorf("%q within part %q: %v", b, part1, inside)
		}
	})
}

// FuzzParse: bytes that parse are the flat form of what they parse to.
func FuzzParse(f *testing.F) {
	f.Add([]byte("part\x00\x01row"))
	f.Add([]byte("pa\x00\xffrt\x00\x01row"))
	f.Add([]byte("part\x00"))
	f.Add([]byte("part\x00\x02row"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Parser
		part, row, err := p.Parse(b)
		if err == nil && !bytes.Equal(Append(nil, kv.Key{Part: part, Row: row}), b) {
			t.Errorf("%q parses to %q and %q", b, part, row)
		}
		_, _, again := p.Parse(b) // with what it remembers
		if (err == nil) != (again == nil) {
			t.Errorf("%q parses with error %v, then with %v", b, err, again)
		}
	})
}
