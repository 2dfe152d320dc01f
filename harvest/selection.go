package harvest

import (
	"math/rand/v2"
	"slices"

	"gleaner/cluster"
)

// A Length is the rough type of a job, by how long it ran last time.
type Length uint8

// The lengths (OSDI'16 §4.1).
const (
	Short Length = iota
	Medium
	Long
)

func (l Length) String() string { return [...]string{"short", "medium", "long"}[l] }

// The ranking of classes for a length. A step is a factor of ten, so that the
// ranking decides among classes with room of the same order, and the room
// decides if the better class is nearly full.
const (
	first  = 100.0
	second = 10.0
	third  = 1.0
)

// weights is W of Algorithm 1, by length and pattern. A long job needs tenants
// that will not take back what they leave free now; a short one ends before they
// do, and leaves the constant tenants to others (§4.1). Tenants of unknown
// pattern promise nothing.
var weights = [...][4]float64{
	Short:  {cluster.UnknownPattern: third, cluster.Unpredictable: first, cluster.Periodic: second, cluster.Constant: third},
	Medium: {cluster.UnknownPattern: third, cluster.Periodic: first, cluster.Constant: second, cluster.Unpredictable: third},
	Long:   {cluster.UnknownPattern: third, cluster.Constant: first, cluster.Periodic: second, cluster.Unpredictable: third},
}

// A ClassState is a class and what its servers hold now, all together.
type ClassState struct {
	Pattern    cluster.Pattern
	Mean, Peak float64           // of the primaries' CPU, from history
	Size       cluster.Resources // of all its servers
	Reserve    cluster.Resources
	Room       cluster.Resources // that harvested tasks may hold now, by the policy
	Surely     cluster.Resources // the part of Room that is sure
	Held       cluster.Resources // by harvested tasks
	Promised   cluster.Resources // to jobs whose tasks have yet to start
}

// Headroom is what a job of that length may count on in the class: its size less
// the use expected while the job runs, the reserve, and what others hold or were
// promised. It is never negative.
//
// The expected use is the present use for a short job, the larger of that and
// the mean for a medium one, and the larger of that and the peak for a long one
// (§4.1). Room already excludes the present use.
func (c *ClassState) Headroom(kind Length) cluster.Resources {
	room := c.Room
	switch kind {
	case Medium:
		room.CPU = min(room.CPU, c.above(c.Mean))
	case Long:
		room.CPU = min(room.CPU, c.above(c.Peak))
	}
	room = room.Sub(c.Held).Sub(c.Promised)
	if room.CPU <= 0 || room.Memory < 0 {
		return cluster.Resources{}
	}
	return room
}

// above is what the primaries and the reserve leave of the class if the
// primaries use share.
func (c *ClassState) above(share float64) cluster.MilliCPU {
	return c.Size.CPU - cluster.MilliCPU(share*float64(c.Size.CPU)) - c.Reserve.CPU
}

// Select is Algorithm 1 of OSDI'16 from line 5 on: for a job of that length and
// need it picks one class, or several together, or none, and appends their
// indices in classes to picked.
func Select(kind Length, need cluster.Resources, classes []ClassState, r *rand.Rand, picked []int) []int {
	var roomBuf [32]cluster.Resources
	var weightBuf [32]float64
	rooms, weighted := roomBuf[:0], weightBuf[:0]
	var all cluster.Resources
	fits := false
	for i := range classes { // lines 5 to 7
		c := &classes[i]
		room := c.Headroom(kind)
		all = all.Add(room)
		fits = fits || need.Fits(room)
		rooms = append(rooms, room)
		weighted = append(weighted, float64(room.CPU)*weights[kind][c.Pattern])
	}
	if fits { // lines 8 to 11
		for i, room := range rooms {
			if !need.Fits(room) {
				weighted[i] = 0
			}
		}
		return append(picked, draw(weighted, r))
	}
	if !need.Fits(all) { // lines 15 to 17
		return picked
	}
	for before := len(picked); ; { // lines 12 to 14
		i := draw(weighted, r)
		picked = append(picked, i)
		weighted[i] = 0
		if need = need.Sub(rooms[i]); need.CPU <= 0 && need.Memory <= 0 {
			slices.Sort(picked[before:])
			return picked
		}
	}
}

// draw returns an index with probability proportional to its weight; not all
// weights are zero.
func draw(weights []float64, r *rand.Rand) int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	point, last := r.Float64()*total, 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		if point < w {
			return i
		}
		point -= w
		last = i
	}
	return last // rounding has carried the point past the end
}
