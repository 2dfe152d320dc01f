package dilation

import "time"

// An ObservedRun is one run of a job that was observed on a machine.
type ObservedRun struct {
	Took   time.Duration
	Used   Vector // from the kernel: of each resource, the share of the time that the job did not wait for others
	Beside Vector // the average load of all others meanwhile
}

// Learn estimates the loading vector of a job from observed runs, each of the
// same work. What the kernel reports of a run has the same weight as how long
// it took: it counts as a run beside probes that measured just those shares.
// The kernel may miss what a job waits for, but it does not make up what the job
// used: times that mislead, because a stranger slowed some runs down, take away
// half of a share at most.
func (m Machine) Learn(runs []ObservedRun) Vector {
	told := make(Vector, len(m))
	if len(runs) == 0 {
		return told
	}
	for _, r := range runs {
		for i, share := range Limited(r.Used) {
			told[i] += share / float64(len(runs))
		}
	}
	load := told
	const turns = 5 // the vector and the time alone each follow from the other
	for range turns {
		known, seen := m.sightings(runs, m.Alone(runs, load))
		load = Means(m.Fit(known, seen)[0])
	}
	for i := range load {
		load[i] = max(load[i], told[i]/2)
	}
	return Limited(load)
}

// Alone estimates, in seconds, from runs how long a job of that load takes alone.
func (m Machine) Alone(runs []ObservedRun, load Vector) float64 {
	sum := 0.0
	for _, r := range runs {
		sum += r.Took.Seconds() / (1 + m.dot(load, r.Beside)) / float64(len(runs))
	}
	return sum
}

// sightings states the runs as observations of job 0: for each resource beside
// as many probes as it has instances, and beside the load that was observed.
func (m Machine) sightings(runs []ObservedRun, alone float64) (known []Vector, seen []Observation) {
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
