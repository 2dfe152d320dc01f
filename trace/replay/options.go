package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay/judge"
)

// Options say how a program is played.
type Options struct {
	Program *program.Program `json:"-"`
	Setting grow.Setting     // resolved; see grow.Resolve
	// Targets are the executors of the roles the program calls; "" stands for
	// every role that is not named. A call to a role without a target is not
	// sent, and counts as made.
	Targets map[string]Executor `json:"-"`
	// Compress divides all waits except those of beats: the target's own clock, by
	// which it declares a node dead, does not run faster.
	Compress float64 // 0: 1
	// Ramp is the time over which the starts of a type's nodes are spread. 0: its
	// longest beat, so that their beats do not coincide; negative: none.
	Ramp     time.Duration
	Warmup   time.Duration // calls sent before are counted, but their times are not
	For      time.Duration // end after this time, or before when all steps are done; 0: only then
	Timeout  time.Duration // of a call without a reply; 0: 10 s
	Patience time.Duration // with a value that does not come, or a connection; 0: 30 s
	OnError  Policy        // what a player does when a call gets no reply
	Stay     bool          // let beats go on until For ends, also after the last step
	Limits   judge.Limits  // beyond which a call is late or slow; see Result.TroubleAt
	Share    int           // connections that all nodes share for a role; 0: each has its own
	Workers  int           // calls under way at once; 0: 4096
	Seed     uint64
	// Part of Parts plays only every Parts-th node, so that several processes can
	// share a program whose nodes are independent (see Apart). Parts 0 plays all.
	Part, Parts int
	// Record gets every call that was sent, from many goroutines at once. It may keep
	// the call.
	Record func(*trace.Call) `json:"-"`
}

// Policy is what a player does when a call gets no reply.
type Policy uint8

// The policies. A beat is not retried: the next beat follows.
const (
	Retry Policy = iota // make it again until patience ends, and then go on
	Skip                // go on
	End                 // make no more calls
)

// ParsePolicy reads a policy.
func ParsePolicy(s string) (Policy, error) {
	at := slices.Index([]string{"retry", "skip", "end"}, s)
	if at < 0 {
		return 0, fmt.Errorf("%q is not a policy: one of retry, skip, end", s)
	}
	return Policy(at), nil
}

// mostNodes is how many nodes are played at most. They take about a gigabyte of memory;
// many more would take all that a usual machine has.
const mostNodes = 1_000_000

// FewEnough is an input.Error for a setting with more nodes than can be played.
func FewEnough(p *program.Program, s grow.Setting) error {
	all := 0
	for i := range p.Types {
		t := &p.Types[i]
		n := s.Count(t)
		if n > mostNodes {
			return input.Fieldf("scale", "n = %d makes %d nodes of type %s (%s), more than the %d that can be played here", s.Scale, n, t.Name, t.Nodes.String(), mostNodes)
		}
		all += n
	}
	if all > mostNodes {
		return input.Fieldf("scale", "n = %d makes %d nodes of all types, more than the %d that can be played here", s.Scale, all, mostNodes)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Compress = cmp.Or(o.Compress, 1)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Workers = cmp.Or(o.Workers, 4096)
	o.Limits = o.Limits.OrDefaults()
	o.Targets = maps.Clone(o.Targets)
	for role, e := range o.Targets {
		if s, ok := e.(Sharer); ok && o.Share > 0 {
			o.Targets[role] = s.Share(o.Share)
		}
	}
	return o
}

// target is the executor of a role.
func (o *Options) target(role string) Executor {
	if e := o.Targets[role]; e != nil {
		return e
	}
	return o.Targets[""]
}
