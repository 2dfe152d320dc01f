package dilation

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// An Observation is how much one job was stretched beside others. Jobs have
// numbers; those beside it may be listed more than once, and may be copies of it.
type Observation struct {
	Job    int
	Beside []int
	Factor float64
}

// Fit finds the loading vectors that explain the observations best, by least
// squares. Jobs with a vector in known keep it. The bounds of each share follow
// from how far the observations are from the fit; a share that no observation
// depends on has none.
func (m Machine) Fit(known []Vector, observations []Observation) [][]Estimate {
	f := newFit(m, known, observations)
	f.descend()
	for j := range f.vectors {
		f.vectors[j] = Limited(f.vectors[j])
	}
	return f.estimates()
}

// A fit is a search for the unknown vectors, from the middle, by steps of
// Levenberg and Marquardt that end where a share is 0 or 1.
type fit struct {
	m            Machine
	vectors      []Vector
	place        []int // of each job's first share among the unknowns; -1 if it is known
	unknowns     int
	observations []Observation
}

func newFit(m Machine, known []Vector, observations []Observation) *fit {
	f := &fit{m: m, observations: observations}
	for _, v := range known {
		if v != nil {
			f.vectors, f.place = append(f.vectors, slices.Clone(v)), append(f.place, -1)
			continue
		}
		v = make(Vector, len(m))
		for i := range v {
			v[i] = 1 / float64(2*len(m))
		}
		f.vectors, f.place = append(f.vectors, v), append(f.place, f.unknowns)
		f.unknowns += len(m)
	}
	return f
}

// beside is the sum of the loads beside the observed job.
func (f *fit) beside(o Observation) Vector {
	total := make(Vector, len(f.m))
	for _, j := range o.Beside {
		total.Add(f.vectors[j])
	}
	return total
}

// residual is by how much the model is above what was observed.
func (f *fit) residual(o Observation) float64 {
	return 1 + f.m.dot(f.vectors[o.Job], f.beside(o)) - o.Factor
}

func (f *fit) error() float64 {
	sum := 0.0
	for _, o := range f.observations {
		sum += f.residual(o) * f.residual(o)
	}
	return sum
}

// normal returns JᵀJ and Jᵀr, where J is how the residuals r change with the unknowns.
func (f *fit) normal() (*mat.SymDense, *mat.VecDense) {
	square, right := mat.NewSymDense(f.unknowns, nil), mat.NewVecDense(f.unknowns, nil)
	for _, o := range f.observations {
		slope := mat.NewVecDense(f.unknowns, nil)
		add := func(job int, by Vector) {
			if at := f.place[job]; at >= 0 {
				for i := range by {
					slope.SetVec(at+i, slope.AtVec(at+i)+by[i]/float64(f.m[i]))
				}
			}
		}
		add(o.Job, f.beside(o))
		for _, j := range o.Beside {
			add(j, f.vectors[o.Job])
		}
		square.SymRankOne(square, 1, slope)
		right.AddScaledVec(right, f.residual(o), slope)
	}
	return square, right
}

const (
	maxSteps = 500
	settled  = 1e-24 // squared error that counts as none
)

func (f *fit) descend() {
	damping, before := 1e-3, f.error()
	for range maxSteps {
		if f.unknowns == 0 || before < settled || damping > 1e12 {
			return
		}
		kept := f.vectors
		f.step(damping)
		if after := f.error(); after < before {
			before, damping = after, damping/4
			continue
		}
		f.vectors, damping = kept, damping*3
	}
}

// step moves the vectors. A share that is at its bound and would leave it
// stays there, and the others move as if it were known.
func (f *fit) step(damping float64) {
	square, right := f.normal()
	moved := slices.Clone(f.vectors)
	for j, v := range f.vectors {
		for i, p := range v {
			if at := f.place[j] + i; f.place[j] >= 0 && (p == 0 && right.AtVec(at) > 0 || p == 1 && right.AtVec(at) < 0) {
				freeze(square, right, at)
			}
		}
	}
	for i := range f.unknowns {
		square.SetSym(i, i, square.At(i, i)*(1+damping)+damping*1e-6)
	}
	var way mat.Cholesky
	move := mat.NewVecDense(f.unknowns, nil)
	if !way.Factorize(square) || way.SolveVecTo(move, right) != nil {
		return
	}
	for j, v := range f.vectors {
		if f.place[j] < 0 {
			continue
		}
		moved[j] = make(Vector, len(v))
		for i := range v {
			moved[j][i] = share(v[i] - move.AtVec(f.place[j]+i))
		}
	}
	f.vectors = moved
}

// freeze takes one unknown out of the equations.
func freeze(square *mat.SymDense, right *mat.VecDense, at int) {
	for i := range right.Len() {
		square.SetSym(at, i, 0)
	}
	square.SetSym(at, at, 1)
	right.SetVec(at, 0)
}

// estimates returns each share with its bounds, from the errors of the fit.
func (f *fit) estimates() [][]Estimate {
	square, _ := f.normal()
	var inverse mat.SymDense
	var way mat.Cholesky
	free := len(f.observations) - f.unknowns
	certain := free > 0 && way.Factorize(square) && way.InverseTo(&inverse) == nil
	out := make([][]Estimate, len(f.vectors))
	for j, v := range f.vectors {
		for i, p := range v {
			half := math.Inf(1)
			switch at := f.place[j]; {
			case at < 0:
				half = 0
			case certain:
				half = student(free) * math.Sqrt(f.error()/float64(free)*inverse.At(at+i, at+i))
			}
			out[j] = append(out[j], Estimate{p, share(p - half), share(p + half), len(f.observations)})
		}
	}
	return out
}

// Means takes the shares out of their estimates.
func Means(estimates []Estimate) Vector {
	v := make(Vector, len(estimates))
	for i, e := range estimates {
		v[i] = e.Mean
	}
	return v
}
