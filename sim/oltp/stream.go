package oltp

import (
	"math/rand/v2"
	"sort"
	"time"
)

// A Request reads or writes a range of a vDisk.
type Request struct {
	At     time.Duration // since the workload began
	VDisk  int
	Offset int64
	Size   int64
	Write  bool
}

// A Stream is the requests of a workload in order of time.
type Stream struct {
	sections []Section
	rng      *rand.Rand
	parts    [2]part
	now      time.Duration
	heads    []int64 // where each section reads or writes on
}

// A part is the sections that are active in a turn.
type part struct {
	index []int
	until []float64 // sum of rates up to and with each
}

func (p part) rate() float64 {
	if len(p.until) == 0 {
		return 0
	}
	return p.until[len(p.until)-1]
}

// Requests returns the workload's requests from its beginning on, without end.
func (w Workload) Requests(rng *rand.Rand) *Stream {
	s := &Stream{sections: w.Sections, rng: rng, heads: make([]int64, len(w.Sections))}
	for p := range s.parts {
		sum := 0.0
		for i, section := range w.Sections {
			if section.Part == 0 || section.Part == p+1 {
				sum += section.Rate
				s.parts[p].index = append(s.parts[p].index, i)
				s.parts[p].until = append(s.parts[p].until, sum)
			}
		}
	}
	return s
}

// Next returns the next request. A Poisson process has no memory, so an arrival
// beyond the end of a turn is drawn again at the rate of the next turn.
func (s *Stream) Next() Request {
	for {
		turn := s.now / Turn
		p := &s.parts[turn%2]
		wait := s.rng.ExpFloat64() / p.rate() * float64(time.Second)
		if end := (turn + 1) * Turn; wait >= float64(end-s.now) {
			s.now = end
			continue
		}
		s.now += time.Duration(wait)
		i := sort.SearchFloat64s(p.until, s.rng.Float64()*p.rate())
		return s.request(p.index[min(i, len(p.index)-1)])
	}
}

func (s *Stream) request(i int) Request {
	section := &s.sections[i]
	size := section.Small
	if section.Larger > 0 && s.rng.Float64() < section.Larger {
		size = section.Large
	}
	return Request{s.now, section.VDisk, section.From + s.offset(i, size), size, s.rng.Float64() >= section.Reads}
}

// offset is a multiple of the size in the section's working set.
func (s *Stream) offset(i int, size int64) int64 {
	section := &s.sections[i]
	if section.Random == 0 || section.Random < 1 && s.rng.Float64() >= section.Random {
		at := (s.heads[i] + size - 1) / size * size
		if at+size > section.Size {
			at = 0
		}
		s.heads[i] = at + size
		return at
	}
	from, to := int64(0), section.Size
	if section.HotData > 0 {
		edge := whole(section.HotData * float64(section.Size))
		if s.rng.Float64() < section.HotShare {
			to = max(edge, size)
		} else {
			from = edge
		}
	}
	return from + s.rng.Int64N((to-from)/size)*size
}
