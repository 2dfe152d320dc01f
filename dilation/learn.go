package dilation

import "time"

// A Run is one run of a job that was seen on a machine.
type Run struct {
	Took   time.Duration
	Used   Vector // what the kernel says it used: of each resource, the share of the time that it did not wait
	Beside Vector // the load of all others meanwhile, on average
}

// Learn gives the loading vector of a job from runs of it that were seen, each
// of the same work. What the kernel says of a run counts as much as how long
// it took: as a run beside probes that found just those shares.
func (m Machine) Learn(runs []Run) Vector {
	load := make(Vector, len(m))
	if len(runs) == 0 {
		return load
	}
	for _, r := range runs {
		for i, share := range Limited(r.Used) {
			load[i] += share / float64(len(runs))
		}
	}
	const turns = 5 // the vector tells the time alone, and that the vector
	for range turns {
		known, seen := m.sightings(runs, m.alone(runs, load))
		load = Means(m.Fit(known, seen)[0])
	}
	return load
}

// alone is how long a job of that load takes alone, by the runs seen.
func (m Machine) alone(runs []Run, load Vector) float64 {
	sum := 0.0
	for _, r := range runs {
		sum += r.Took.Seconds() / (1 + m.dot(load, r.Beside)) / float64(len(runs))
	}
	return sum
}

// sightings states the runs as observations of job 0: beside a probe for each
// resource that is as many as it has instances, and beside who was there.
func (m Machine) sightings(runs []Run, alone float64) (known []Vector, seen []Observation) {
	known = []Vector{nil}
	for i, k := range m {
		probes := make(Vector, len(m))
		probes[i] = float64(k)
		known = append(known, probes)
	}
	for _, r := range runs {
		for i, share := range Limited(r.Used) {
			seen = append(seen, Observation{0, []int{1 + i}, 1 + share})
		}
		if alone > 0 {
			seen = append(seen, Observation{0, []int{len(known)}, r.Took.Seconds() / alone})
			known = append(known, r.Beside)
		}
	}
	return known, seen
}
