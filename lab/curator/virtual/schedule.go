package virtual

import (
	"maps"
	"slices"
	"time"

	"gleaner/fabric/upkeep"
)

// A schedule says when to scan for what, as a front does.
type schedule struct {
	policy           upkeep.Policy
	wanted           map[string]bool // because of something that happened
	early            bool            // some task could not be done yet
	looked, relieved time.Time
	partial, full    time.Time // of the next scans of a part of the maps, and of all
}

func (s *schedule) want(jobs ...string) {
	for _, j := range jobs {
		s.wanted[j] = true
	}
}

// look wants a scan where something could not be done before, or a threshold is passed.
func (s *schedule) look(now time.Time, passed bool) {
	s.looked = now
	if s.early {
		s.want(upkeep.Disks, upkeep.Replicas, upkeep.VDisks)
	}
	s.early = false
	if passed && now.Sub(s.relieved) >= relieveEvery {
		s.want(upkeep.Cold)
		s.relieved = now
	}
}

// due gives the jobs to scan now, none if there is no need.
func (s *schedule) due(now time.Time) []string {
	if !now.Before(s.partial) {
		s.partial = now.Add(s.policy.Partial())
		s.want(partial()...)
	}
	if !now.Before(s.full) {
		s.full = now.Add(s.policy.Full())
		s.want(full()...)
	}
	due := slices.Sorted(maps.Keys(s.wanted))
	clear(s.wanted)
	return due
}
