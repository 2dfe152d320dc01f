// Package oltp generates the workloads of NSDI'17, appendices C and D, as streams of
// requests in virtual time: databases with a data and a log section, alone, beside
// desktops, or in turn with decision support.
//
// # What the paper leaves open
//
//   - Arrivals are a Poisson process of the section's rate.
//   - The sizes and rates of OLTP small, medium and large (its Table 4) are not in
//     the text that these were written from. Medium has the 448 GB of the DSS
//     workload that it takes turns with; small has half and large four times of
//     that, so that two copies of all three take 5 TB, as §3.4.2 says. Each GB gets
//     as many requests as one of oltp-skewed. A log has 16 GB, as that of DSS, and a
//     quarter of its data's rate.
//   - A sequential section reads or writes on from where it was, and begins again at
//     its end.
package oltp

import (
	"fmt"
	"strings"
	"time"

	"gleaner/input"
)

const (
	kb = 1 << 10
	mb = 1 << 20
	gb = 954 * mb // nearly 1e9, and sections are aligned
)

// Turn is how long a workload of two parts stays in each (appendix D).
const Turn = 20 * time.Minute

// A Section is a range of a vDisk that is accessed in one way.
type Section struct {
	VDisk    int
	From     int64   // of the vDisk, bytes
	Size     int64   // the working set, bytes
	Rate     float64 // requests a second
	Reads    float64 // share of the requests
	Random   float64 // share of the requests; the others are sequential
	Small    int64   // bytes of a request
	Large    int64   // bytes of the other requests
	Larger   float64 // share of Large
	HotData  float64 // share of the data, at its beginning, that is hot; 0: none
	HotShare float64 // share of the random requests that go there
	Part     int     // of a workload that takes turns, 1 or 2; 0: always active
}

// A Workload is sections that are active together, or in turns.
type Workload struct {
	Name     string
	Sections []Section
}

// Names are those of the workloads, first of appendix C, then of D.
func Names() []string {
	return []string{"oltp-small", "oltp-medium", "oltp-large", "oltp", "oltp-skewed", "oltp-varying", "oltp-vdi", "oltp-dss"}
}

// Find returns a workload by its name.
func Find(name string) (Workload, error) {
	w := Workload{Name: name}
	switch name {
	case "oltp-small":
		w.Sections = small(0)
	case "oltp-medium":
		w.Sections = medium(0)
	case "oltp-large", "oltp":
		w.Sections = large(0)
	case "oltp-skewed":
		w.Sections = skewed()
	case "oltp-varying":
		w.Sections = inTurn(medium(0), small(2))
	case "oltp-vdi":
		w.Sections = append(large(0), desktops(2, 300)...)
	case "oltp-dss":
		w.Sections = inTurn(medium(0), dss(2))
	default:
		return Workload{}, input.Fieldf("workload", "there is no workload %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return w, nil
}

func small(vdisk int) []Section  { return database(vdisk, 224*gb) }
func medium(vdisk int) []Section { return database(vdisk, 448*gb) }
func large(vdisk int) []Section  { return database(vdisk, 1792*gb) }

// database is an OLTP workload on two vDisks: half of the data's requests are reads,
// all are random, a tenth are large (appendix C).
func database(vdisk int, size int64) []Section {
	rate := 32000 * float64(size) / (4480 * gb)
	return []Section{
		{VDisk: vdisk, Size: size, Rate: rate, Reads: 0.5, Random: 1, Small: 8 * kb, Large: 32 * kb, Larger: 0.1},
		log(vdisk+1, rate/4),
	}
}

func log(vdisk int, rate float64) Section {
	return Section{VDisk: vdisk, Size: 16 * gb, Rate: rate, Random: 0.1, Small: 32 * kb}
}

// skewed reads only, and nine of ten times from a tenth of the data.
func skewed() []Section {
	s := database(0, 4480*gb)
	s[0].Reads, s[0].Larger, s[0].HotData, s[0].HotShare = 1, 0, 0.1, 0.9
	return s
}

// dss reads its data from end to end.
func dss(vdisk int) []Section {
	return []Section{{VDisk: vdisk, Size: 448 * gb, Rate: 2880, Reads: 1, Small: mb}, log(vdisk+1, 800)}
}

// desktops are virtual machines, each with one vDisk: the first 8 GB are read, the
// last 2 GB written.
func desktops(vdisk, n int) (out []Section) {
	for i := range n {
		out = append(out,
			Section{VDisk: vdisk + i, Size: 8 * gb, Rate: 13, Reads: 1, Random: 0.8, Small: 8 * kb, Large: 32 * kb, Larger: 0.1},
			Section{VDisk: vdisk + i, From: 8 * gb, Size: 2 * gb, Rate: 13, Random: 0.2, Small: 32 * kb})
	}
	return out
}

// inTurn makes the first active for one turn, then the second for one.
func inTurn(first, second []Section) []Section {
	for i := range first {
		first[i].Part = 1
	}
	for i := range second {
		second[i].Part = 2
	}
	return append(first, second...)
}

// Scaled is the workload on a smaller cluster: working sets and rates are divided.
// No section becomes smaller than the largest request, 1 MiB.
func (w Workload) Scaled(space, rate float64) (Workload, error) {
	if !(space >= 1 && rate >= 1) {
		return Workload{}, input.Fieldf("scale", "space 1:%g and rate 1:%g: a scale is 1 or more", space, rate)
	}
	sections := make([]Section, len(w.Sections))
	for i, s := range w.Sections {
		s.From, s.Size, s.Rate = whole(float64(s.From)/space), max(whole(float64(s.Size)/space), mb), s.Rate/rate
		sections[i] = s
	}
	return Workload{fmt.Sprintf("%s 1:%g", w.Name, space), sections}, nil
}

// whole is a number of bytes in whole MiB, so that requests stay aligned.
func whole(bytes float64) int64 { return int64(bytes) / mb * mb }

// VDisks are the sizes of the vDisks: up to the end of their last sections.
func (w Workload) VDisks() []int64 {
	var out []int64
	for _, s := range w.Sections {
		for s.VDisk >= len(out) {
			out = append(out, 0)
		}
		out[s.VDisk] = max(out[s.VDisk], s.From+s.Size)
	}
	return out
}
