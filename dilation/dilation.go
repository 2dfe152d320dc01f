package dilation

import (
	"fmt"
	"math"
)

// A Vector is a job's loading vector: for each resource of the machine, the
// share of the job's time, run alone, that it spends there. The sum of several
// jobs' vectors is a Vector too, and may exceed 1.
type Vector []float64

// Check reports why v is not one job's loading vector on m.
func (m Machine) Check(v Vector) error {
	if len(v) != len(m) {
		return fmt.Errorf("a loading vector of %d shares for a machine of %d resources", len(v), len(m))
	}
	sum := 0.0
	for i, share := range v {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("share %d of the loading vector is %g, not between 0 and 1", i+1, share)
		}
		sum += share
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("the loading vector's shares add up to %g, more than 1", sum)
	}
	return nil
}

// A Machine is how many identical instances of each resource there are: cores,
// disks, links.
type Machine []int

// dot is the product of eq. 3, each resource's term divided by its instances.
func (m Machine) dot(a, b Vector) float64 {
	sum := 0.0
	for i, k := range m {
		sum += a[i] * b[i] / float64(k)
	}
	return sum
}

// Sum adds up the jobs' loading vectors.
func (m Machine) Sum(jobs ...Vector) Vector {
	total := make(Vector, len(m))
	for _, p := range jobs {
		total.Add(p)
	}
	return total
}

// Add adds p to v in place.
func (v Vector) Add(p Vector) {
	for i := range v {
		v[i] += p[i]
	}
}

// Remove takes p away from v in place. Rounding never leaves a share below 0.
func (v Vector) Remove(p Vector) {
	for i := range v {
		v[i] = max(0, v[i]-p[i])
	}
}

// Factor is λ, by how much a job of load p is stretched on a machine whose
// jobs, itself included, add up to total (eq. 3).
func (m Machine) Factor(p, total Vector) float64 {
	return 1 + m.dot(p, total) - m.dot(p, p)
}

// Factors returns each job's λ when all of them run on m together.
func (m Machine) Factors(jobs []Vector) []float64 {
	total := m.Sum(jobs...)
	factors := make([]float64, len(jobs))
	for j, p := range jobs {
		factors[j] = m.Factor(p, total)
	}
	return factors
}

// Total is the sum of all jobs' λ, from the lengths of the vectors alone (eq. 12).
func (m Machine) Total(jobs []Vector) float64 {
	total := m.Sum(jobs...)
	sum := float64(len(jobs)) + m.dot(total, total)
	for _, p := range jobs {
		sum -= m.dot(p, p)
	}
	return sum
}

// Harm is what a job of load p adds to the waiting on a machine whose jobs add
// up to total: the job itself is stretched by this much, and so are the others
// together (Definition 2).
func (m Machine) Harm(p, total Vector) float64 { return m.dot(p, total) }

// Least returns the index of the machine on which a job of load p does the least
// harm (Definition 2), the first of several; -1 if there are none. The jobs of
// machines[i] add up to totals[i].
func Least(p Vector, machines []Machine, totals []Vector) int {
	best, least := -1, math.Inf(1)
	for i, m := range machines {
		if harm := m.Harm(p, totals[i]); harm < least {
			best, least = i, harm
		}
	}
	return best
}
