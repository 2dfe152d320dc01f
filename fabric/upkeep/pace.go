package upkeep

import "time"

// longestRest is how long upkeep rests at most: the removal of a large vDisk is one task and takes hours, and what is lost meanwhile must not wait for days.
const longestRest = time.Minute

// Usual is the load of servers of which nothing is known.
const Usual = 0.5

// Share is how much of the time upkeep may take, by the load of the servers that it works on: 0 in the hour in which they are used least, 1 in that in
// which they are used most, or while their owners need them.
func (p Policy) Share(load float64) float64 { return p.Ceiling - load*(p.Ceiling-p.Floor) }

// Rest is how long upkeep rests after a task, to take that share of the time.
func Rest(took time.Duration, share float64) time.Duration {
	return time.Duration(min(float64(took)*(1/share-1), float64(longestRest)))
}
