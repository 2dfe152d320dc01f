package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
)

// A Pair is a key and a value that a job emitted when it read a source.
type Pair struct {
	Job    uint16
	Key    []byte
	Source uint8
	Value  []byte
}

func compare(a, b *Pair) int {
	if a.Job != b.Job {
		return cmp.Compare(a.Job, b.Job)
	}
	if c := bytes.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if a.Source != b.Source {
		return cmp.Compare(a.Source, b.Source)
	}
	return bytes.Compare(a.Value, b.Value)
}

// partition gives the same partition for the same job and key, in any process. The checksums of
// the standard library would do, but through them the key escapes to the heap.
func partition(job uint16, key []byte, parts uint16) uint16 {
	h := mix(uint64(job))
	for ; len(key) >= 8; key = key[8:] {
		h = mix(h ^ binary.BigEndian.Uint64(key))
	}
	return uint16(mix(h^prefix(key)) % uint64(parts))
}

func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15 // 2^64 over the golden ratio, so that close numbers end far apart
	return h ^ h>>32
}

// A Sorter collects pairs, and writes them sorted. Its memory is allocated once:
// to add a pair allocates nothing unless the sorter is full.
type Sorter struct {
	parts uint16
	bytes []byte // of keys and values
	refs  []ref
	block int
	out   writer
}

// A ref is a pair in the sorter's bytes: its key and then its value.
type ref struct {
	prefix uint64 // the first 8 bytes of the key, which decide most comparisons
	at     uint32
	key    uint32 // length
	value  uint32 // length
	job    uint16
	part   uint8
	source uint8
}

// refSize is what a ref takes in memory.
const refSize = 24

// Limits of a sorter.
const (
	MaxPartitions = 256
	leastMemory   = 1 << 10
	mostMemory    = 1 << 30 // so that a ref can say where its pair is
)

// NewSorter gives a sorter for that many partitions, from 1 to MaxPartitions, in about so many bytes of memory.
func NewSorter(memory, parts int) *Sorter {
	memory = min(max(memory, leastMemory), mostMemory)
	return &Sorter{
		parts: uint16(parts),
		bytes: make([]byte, 0, memory/2),
		refs:  make([]ref, 0, memory/2/refSize),
		block: BlockSize(memory),
	}
}

// Add adds a copy of p.
func (s *Sorter) Add(p Pair) {
	s.refs = append(s.refs, ref{
		prefix: prefix(p.Key), at: uint32(len(s.bytes)), key: uint32(len(p.Key)), value: uint32(len(p.Value)),
		job: p.Job, part: uint8(partition(p.Job, p.Key, s.parts)), source: p.Source,
	})
	s.bytes = append(append(s.bytes, p.Key...), p.Value...)
}

// Full tells whether the sorter is to be written before more is added. It is
// at three quarters of its memory, to leave room for what one more record emits.
func (s *Sorter) Full() bool {
	return len(s.refs) >= cap(s.refs)/4*3 || len(s.bytes) >= cap(s.bytes)/4*3
}

// Len is how many pairs there are.
func (s *Sorter) Len() int { return len(s.refs) }

// Reset empties the sorter.
func (s *Sorter) Reset() { s.refs, s.bytes = s.refs[:0], s.bytes[:0] }

// Write writes the pairs as a run of that name, and empties the sorter.
func (s *Sorter) Write(ctx context.Context, space Space, name string) (Run, error) {
	slices.SortFunc(s.refs, s.compare)
	run := Run{Name: name, Ends: make([]int64, s.parts)}
	w, err := s.out.open(ctx, space, name, s.block)
	if err != nil {
		return Run{}, err
	}
	i := 0
	for part := range run.Ends {
		for ; i < len(s.refs) && int(s.refs[i].part) == part; i++ {
			w.add(s.pair(&s.refs[i]))
		}
		run.Ends[part] = w.endSection()
	}
	s.Reset()
	return run, w.close()
}

func (s *Sorter) compare(a, b ref) int {
	if a.part != b.part {
		return cmp.Compare(a.part, b.part)
	}
	if a.job != b.job {
		return cmp.Compare(a.job, b.job)
	}
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	p, q := s.pair(&a), s.pair(&b)
	return compare(&p, &q)
}

func (s *Sorter) pair(r *ref) Pair {
	key := s.bytes[r.at : r.at+r.key]
	return Pair{Job: r.job, Key: key, Source: r.source, Value: s.bytes[r.at+r.key : r.at+r.key+r.value]}
}

// prefix reads the first 8 bytes of key, or all and then zeros, so that smaller
// keys never have a larger prefix.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var digits [8]byte
	copy(digits[:], key)
	return binary.BigEndian.Uint64(digits[:])
}
