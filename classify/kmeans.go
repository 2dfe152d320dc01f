package classify

import (
	"math"
	"math/rand/v2"
)

const (
	resolution = 0.05 // width of a class below which a split gains nothing
	restarts   = 2    // for each number of classes
	maxRounds  = 20   // of Lloyd's algorithm
	patience   = 3    // numbers of classes tried without gain
)

// A point is one tenant's profile, every coordinate in utilisation.
type point []float64

func distance(a, b point) float64 {
	sum := 0.0
	for i, x := range a {
		sum += (x - b[i]) * (x - b[i])
	}
	return sum
}

// A grouping says which of its centres every point belongs to.
type grouping struct {
	centre []point
	of     []int
	within float64 // sum of squared distances from the points to their centres
}

// group chooses the number of groups, from 1 to most, by the Bayesian
// information criterion: another group must gain more than its coordinates
// cost. Distances below the resolution gain nothing.
func group(points []point, most int, chance *rand.Rand) grouping {
	best, least := grouping{}, math.Inf(1)
	for k := 1; k <= min(most, len(points), len(best.centre)+patience); k++ {
		g := kmeans(points, k, chance)
		if cost := criterion(g, points); cost < least {
			best, least = g, cost
		}
	}
	return best
}

// criterion is the BIC of spherical groups of one width, which is never
// narrower than the resolution.
func criterion(g grouping, points []point) float64 {
	n, d, k := float64(len(points)), float64(len(points[0])), float64(len(g.centre))
	spread := g.within/(n*d) + resolution*resolution
	return n*d*math.Log(spread) + k*(d+1)*math.Log(n)
}

// kmeans is Lloyd's algorithm from the best of a few K-Means++ starts.
func kmeans(points []point, k int, chance *rand.Rand) grouping {
	best := grouping{within: math.Inf(1)}
	for range restarts {
		g := grouping{centre: seed(points, k, chance), of: make([]int, len(points))}
		g.of[0] = -1 // belongs nowhere yet
		g.iterate(points)
		if g.within < best.within {
			best = g
		}
	}
	return best
}

// seed picks k points as centres, each with a chance in proportion to its
// squared distance from those picked before (Arthur & Vassilvitskii 2007).
func seed(points []point, k int, chance *rand.Rand) []point {
	centres := []point{append(point(nil), points[chance.IntN(len(points))]...)}
	far := make([]float64, len(points))
	for i := range far {
		far[i] = math.Inf(1)
	}
	for len(centres) < k {
		sum := 0.0
		for i, p := range points {
			far[i] = min(far[i], distance(p, centres[len(centres)-1]))
			sum += far[i]
		}
		if sum == 0 {
			break // fewer different points than groups
		}
		left, next := chance.Float64()*sum, 0
		for next < len(points)-1 && left >= far[next] {
			left -= far[next]
			next++
		}
		centres = append(centres, append(point(nil), points[next]...))
	}
	return centres
}

// iterate reassigns points and moves centres until neither changes (Lloyd's algorithm).
func (g *grouping) iterate(points []point) {
	for range maxRounds {
		changed := g.assign(points)
		if !changed {
			return
		}
		g.centres(points)
	}
	g.assign(points)
}

func (g *grouping) assign(points []point) (changed bool) {
	g.within = 0
	for i, p := range points {
		best, least := 0, math.Inf(1)
		for c, centre := range g.centre {
			if d := distance(p, centre); d < least {
				best, least = c, d
			}
		}
		changed = changed || g.of[i] != best
		g.of[i] = best
		g.within += least
	}
	return changed
}

// centres moves every centre to the mean of its points; one without points
// stays where it is.
func (g *grouping) centres(points []point) {
	d := len(points[0])
	sum := make([]float64, len(g.centre)*d)
	count := make([]float64, len(g.centre))
	for i, p := range points {
		c := g.of[i]
		count[c]++
		for j, x := range p {
			sum[c*d+j] += x
		}
	}
	for c, centre := range g.centre {
		for j := range centre {
			if count[c] > 0 {
				centre[j] = sum[c*d+j] / count[c]
			}
		}
	}
}
