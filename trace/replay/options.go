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
)

// Options say how a program is played.
type Options struct {
	Program *program.Program
	Setting grow.Setting // resolved; see grow.Resolve
	// Targets are the executors of the roles the program calls; "" stands for
	// every role that is not named. A call to a role without a target is not
	// sent, and counts as made.
	Targets map[string]Executor
	// Compress divides all waits but those of beats: what the target does by
	// the clock, such as declaring a node dead, it does not do faster.
	Compress float64 // 0: 1
	// Ramp spreads the starts of a type's nodes. 0: over its longest beat, so
	// that beats do not come all at once; negative: not at all.
	Ramp     time.Duration
	Warmup   time.Duration // calls sent before are counted, but their times are not
	For      time.Duration // end after this time; 0: when all steps are done
	Timeout  time.Duration // of a call without a reply; 0: 10 s
	Patience time.Duration // with a value that does not come, or a connection; 0: 30 s
	OnError  Policy        // what a player does when a call gets no reply
	Share    int           // connections that all nodes share for a role; 0: each has its own
	Workers  int           // calls under way at once; 0: 4096
	Seed     uint64
	// Part of Parts plays only every Parts-th node, so that several processes
	// can share a program whose nodes have nothing to do with each other (see
	// Apart). Parts 0 plays all.
	Part, Parts int
	// Record is told every call that was sent, from many goroutines at once. The
	// call is its own to keep.
	Record func(*trace.Call)
}

// Policy is what a player does when a call gets no reply.
type Policy uint8

// The policies. A beat is never made again: the next one is.
const (
	Retry Policy = iota // make it again, until patience runs out, and then go on
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

// mostNodes is how many one machine is asked to play at most. They take about a
// gigabyte of its memory; many more would take all.
const mostNodes = 1_000_000

// FewEnough reports a setting with more nodes than can be played, an input.Error.
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
