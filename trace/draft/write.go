package draft

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Application writes the application document, in YAML.
func (s Sketch) Application() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Drafted from %d calls in %.4g s. Complete it by hand:", s.Calls, s.Seconds)
	say("# - size: a trace does not show how much data there is.")
	say("# - compute: the time is how long a call took, half of all, waiting included; write the CPU time.")
	say("# - io: a call reads a record as large as its reply or, if its name says nothing of")
	say("#   reading, writes one as large as its request. Sizes are those of names and values.")
	for _, name := range s.Left {
		say("# Left out, called too rarely: %s", line(name))
	}
	for _, name := range s.Cycles {
		say("# Left out, it would close a cycle: %s", line(name))
	}
	say("application:\n  datasets:")
	for _, t := range s.Targets {
		say("    - {name: %q, size: 1GB, persistent: 1, remote: 1}", "data of "+t)
	}
	say("  tasks:")
	for _, t := range s.Tasks {
		say("    - name: %q # %d calls", t.Name, t.Calls)
		say("      path:")
		op, bytes := "R", t.Response
		if t.Writes {
			op, bytes = "W", t.Request
		}
		say("        - io: {op: %s, dataset: %q, record_size: %.0fB}", op, "data of "+t.Target, max(1, math.Ceil(bytes)))
		say("        - compute: {time: %gms}", round(float64(max(t.Took, time.Microsecond))/float64(time.Millisecond)))
		for _, x := range t.Triggers {
			say("        - dependency: {task: %q, num_invocations: %g, blocking: %d, inline: 0, message_size: %.0fB}", x.Task, round(x.Each), number(x.Blocking), math.Ceil(x.Bytes))
		}
	}
	return b.String()
}

// SLA writes the SLA document: the rate of the busiest minute of what was asked for,
// not triggered.
func (s Sketch) SLA() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The busiest minute of %.4g s; triggered calls follow from the application.\nslas:\n", s.Seconds)
	for _, t := range s.Tasks {
		if t.Asked > 0 {
			fmt.Fprintf(&b, "  - {task: %q, rate: %g} # %.3g on average\n", t.Name, round(max(t.Peak, 1e-9)), t.Rate)
		}
	}
	return b.String()
}

// line keeps a name from ending the comment it is in.
func line(name string) string { return strings.Join(strings.Fields(name), " ") }

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
