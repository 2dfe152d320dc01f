package dilation

import (
	"math"
)

// An Estimate is the mean of N measurements, and the bounds between which the
// true mean is in 95 of 100 cases.
type Estimate struct {
	Mean, Low, High float64
	N               int
}

// Estimated returns the mean of measurements and its bounds, by Student's t.
// One measurement alone has no bounds.
func Estimated(xs []float64) Estimate {
	n := float64(len(xs))
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	mean := sum / n
	spread := 0.0
	for _, x := range xs {
		spread += (x - mean) * (x - mean)
	}
	half := math.Inf(1)
	if len(xs) > 1 {
		half = student(len(xs)-1) * math.Sqrt(spread/(n-1)/n)
	}
	return Estimate{mean, mean - half, mean + half, len(xs)}
}

// Tight reports whether the bounds are no farther than tolerance from the mean.
func (e Estimate) Tight(tolerance float64) bool {
	return e.High-e.Mean <= tolerance && e.Mean-e.Low <= tolerance
}

// through returns the estimate of f(x), where e estimates x; f is monotonic.
func (e Estimate) through(f func(float64) float64) Estimate {
	low, high := f(e.Low), f(e.High)
	return Estimate{f(e.Mean), min(low, high), max(low, high), e.N}
}

// student is the 97.5th percentile of Student's t. Beyond the table the
// first terms of its expansion by 1/df are right to three digits.
func student(df int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}
	if df <= len(table) {
		return table[df-1]
	}
	const z = 1.959964
	n := float64(df)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}

// Roots are the two shares of the first resource that explain by how much n
// identical jobs are stretched on a machine of two resources, if they are never
// idle (Algorithm 1, eq. 11, with eq. 14 for several instances): more is the
// greater. They are equal if the jobs are stretched less than any such job can
// be, and 1 and 0 if they are stretched more.
func (m Machine) Roots(n int, factor Estimate) (more, less Estimate) {
	root := func(sign float64) func(float64) float64 {
		return func(factor float64) float64 {
			a, b := 1/float64(m[0]), 1/float64(m[1])
			c := (factor - 1) / float64(n-1) // = a p² + b (1-p)²
			inner := b*b - (a+b)*(b-c)
			return share((b + sign*math.Sqrt(max(inner, 0))) / (a + b))
		}
	}
	return factor.through(root(1)), factor.through(root(-1))
}

// Nearer is the root that is closer to another estimate of the share: from a
// probe, or from the kernel's account of what jobs wait for.
func Nearer(more, less Estimate, hint float64) Estimate {
	if math.Abs(more.Mean-hint) <= math.Abs(less.Mean-hint) {
		return more
	}
	return less
}

// Probed is a job's share of resource i, from how much it is stretched beside
// probes that each keep one instance of that resource busy and use no other
// (Property 3, with eq. 14 for several instances).
func (m Machine) Probed(i, probes int, factor Estimate) Estimate {
	each := float64(m[i]) / float64(probes)
	return factor.through(func(factor float64) float64 { return share(each * (factor - 1)) })
}

// share limits p, which noise may have moved, to 0..1.
func share(p float64) float64 { return min(max(p, 0), 1) }

// Limited scales shares that add up to more than the job's time down to it.
func Limited(v Vector) Vector {
	sum := 0.0
	for _, p := range v {
		sum += p
	}
	out := make(Vector, len(v))
	for i, p := range v {
		out[i] = p / max(sum, 1)
	}
	return out
}
