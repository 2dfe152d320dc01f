// Package judge concludes from the numbers of a replay what they say: about the
// program, the players, the machine, or the target. A result is one about the target
// only if the other three were in order, so they are looked at first.
package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Verdict is the conclusion from a run.
type Verdict string

// The verdicts, in the order in which they are looked for.
const (
	Broken Verdict = "program broken" // calls could not be sent, were missing, or were refused where the recording has none refused
	Late   Verdict = "players late"   // the players sent calls too late
	Full   Verdict = "machine full"   // others used the CPU that players or target needed
	GaveIn Verdict = "target gave in"
	Cut    Verdict = "cut short" // the run ended before all nodes had started, or before the warm-up had ended
	Held   Verdict = "held"
)

// Limits decide when a target has given in, and when players are late.
type Limits struct {
	Latency time.Duration // p99 from sending to the reply; 0: 1 s
	Errors  float64       // share of calls without a reply, or of beats missed; 0: 1%
	Lag     time.Duration // p99 of how late calls were sent; 0: 50 ms
}

// OrDefaults sets the limits that are not set.
func (l Limits) OrDefaults() Limits {
	return Limits{cmp.Or(l.Latency, time.Second), cmp.Or(l.Errors, 0.01), cmp.Or(l.Lag, 50*time.Millisecond)}
}

// Facts are the numbers of a run.
type Facts struct {
	Calls int // that were made
	Nodes int

	Unsendable int // calls that do not fit the target's messages
	Missing    int // calls that were not made, and conditions that were never met
	Unexpected int // refused calls beyond those of the recording
	// FaultAt is when the first of these three was seen, TroubleAt when the first call
	// was late, slow or without a reply, in seconds; 0 if none was.
	FaultAt, TroubleAt float64

	Failed        int     // calls without a reply, or refused because the target was overloaded
	Starved       int     // those for which this machine had no file or port left
	Missed        int     // beats that passed before the one before was answered
	Dead          int     // nodes that the target declared dead
	Service, Lag  float64 // p99, in milliseconds
	Busy, Workers int     // calls under way at once, and how many may be

	CPU         CPU
	Elsewhere   []Machine // that played too
	Behind      int       // nodes that the run was too short to start
	Cold        bool      // it ended within its warm-up
	Interrupted bool
}

// CPU is who used the CPU of a machine during a run, in cores.
type CPU struct {
	Cores   float64 `json:"cores"` // that the machine has; 0 if not measured
	Players float64 `json:"players"`
	Target  float64 `json:"target"` // 0 if it runs elsewhere
	Others  float64 `json:"others"` // including what a hypervisor gave to other machines
	// PlayersWaited and TargetWaited are how long their threads waited for a core on
	// average, each time that they were ready to run.
	PlayersWaited float64 `json:"players_waited_ms"`
	TargetWaited  float64 `json:"target_waited_ms"`
}

// A machine is full if nearly all of its cores are in use. It delays somebody by as much
// as a thousand waits for a core: a call is passed on between threads, and its p99 meets
// the longest of their waits. On a crowded machine it was 40 to 350 of them, and ten
// thousand where a process was stopped (TestVerdictsOnEtcd). Processes of low priority also
// fill a machine, but the waits of others stay short.
const (
	fullFrom  = 0.9
	manyWaits = 1000
)

func (c CPU) used() float64 { return c.Players + c.Target + c.Others }

func (c CPU) full() bool { return c.Cores > 0 && c.used() >= fullFrom*c.Cores }

// delaysPlayers reports whether waiting for a core explains that players were late by some
// milliseconds, and it was not they who used most of the CPU.
func (c CPU) delaysPlayers(by float64) bool {
	return c.full() && by <= manyWaits*c.PlayersWaited && c.Players < c.used()/2
}

// delaysTarget is the same for a target on this machine. Replies also seem late to players
// that wait for a core to take them.
func (c CPU) delaysTarget(by float64) bool {
	return c.full() && by <= manyWaits*max(c.PlayersWaited, c.TargetWaited) && c.Target > 0 && c.Target < c.used()/2
}

func (c CPU) String() string {
	return fmt.Sprintf("of %.0f cores the players used %.1f, the target %.1f and others %.1f; the players waited %.1f ms for a core each time, the target %.1f ms",
		c.Cores, c.Players, c.Target, c.Others, c.PlayersWaited, c.TargetWaited)
}

// A Machine is one on which players were.
type Machine struct {
	Name string // "" for this one
	CPU  CPU
}

func (m Machine) String() string {
	if m.Name == "" {
		return m.CPU.String()
	}
	return "on " + m.Name + ", " + m.CPU.String()
}

// Judge concludes from a run what it says, and why.
func (l Limits) Judge(f Facts) (Verdict, string) {
	l = l.OrDefaults()
	slow := l.slow(f)
	late := l.late(f, slow != "")
	var full Machine // that explains it
	switch {
	case f.broken(late != "" || slow != ""):
		return Broken, f.faults()
	case late != "" && (f.starved(l) || !f.full(&full, func(c CPU) bool { return c.delaysPlayers(f.Lag) })):
		return Late, late
	case late != "":
		return Full, late + "; " + full.String()
	case slow != "" && f.full(&full, func(c CPU) bool { return c.delaysTarget(f.Service) }):
		return Full, slow + "; " + full.String()
	case slow != "":
		return GaveIn, slow
	case f.Interrupted:
		return Cut, "it was interrupted"
	case f.Behind > 0:
		return Cut, fmt.Sprintf("it was too short to start all nodes: %d had not when it ended", f.Behind)
	case f.Cold:
		return Cut, "it ended within the warm-up, before anything was measured"
	}
	return Held, ""
}

// full finds the first machine of whose CPU something is true.
func (f *Facts) full(machine *Machine, explains func(CPU) bool) bool {
	all := append([]Machine{{"", f.CPU}}, f.Elsewhere...)
	at := slices.IndexFunc(all, func(m Machine) bool { return explains(m.CPU) })
	if at >= 0 {
		*machine = all[at]
	}
	return at >= 0
}

// broken reports whether the program is at fault. Calls that are late, slow or without
// a reply lead to missing values and to refusals (an expired lease), so these are the
// program's only if they were seen before, or if nothing else was wrong.
func (f *Facts) broken(troubled bool) bool {
	return f.Unsendable > 0 || f.Missing+f.Unexpected > 0 && (!troubled || f.FaultAt < f.TroubleAt)
}

func (f *Facts) faults() string {
	var out []string
	for _, of := range []struct {
		n    int
		what string
	}{{f.Unsendable, "calls that could not be sent"}, {f.Missing, "missing or never completed"}, {f.Unexpected, "refused beyond what the recording has"}} {
		if of.n > 0 {
			out = append(out, fmt.Sprintf("%s: %d", of.what, of.n))
		}
	}
	return strings.Join(out, ", ")
}

func (f *Facts) starved(l Limits) bool { return float64(f.Starved) > l.Errors*float64(f.Calls) }

// where is what to call the machine of the players.
func (f *Facts) where() string {
	if len(f.Elsewhere) > 0 {
		return "a machine that played"
	}
	return "this machine"
}

// late is why the players did not send calls in time; empty if they did. Calls also wait
// for a worker if a slow target keeps all of them busy.
func (l Limits) late(f Facts, slow bool) string {
	switch {
	case f.starved(l):
		return fmt.Sprintf("%d calls found no file or port left on %s (ulimit -n)", f.Starved, f.where())
	case f.Lag <= ms(l.Lag):
		return ""
	case f.Busy < f.Workers || f.Workers == 0:
		return fmt.Sprintf("a hundredth of calls were sent %.0f ms late and more", f.Lag)
	case !slow:
		return fmt.Sprintf("all %d workers were busy, and the other calls %.0f ms late", f.Workers, f.Lag)
	}
	return ""
}

// slow is why the target did not keep up; empty if it did.
func (l Limits) slow(f Facts) string {
	switch share := float64(f.Failed) / float64(max(f.Calls, 1)); {
	case share > l.Errors:
		return fmt.Sprintf("%.1f%% of calls had no reply, or were refused by an overloaded target", 100*share)
	case float64(f.Dead) > l.Errors*float64(f.Nodes):
		return fmt.Sprintf("%d of %d nodes were declared dead", f.Dead, f.Nodes)
	case f.Service > ms(l.Latency):
		return fmt.Sprintf("the slowest hundredth of replies took %.0f ms and more", f.Service)
	case float64(f.Missed) > l.Errors*float64(f.Calls+f.Missed):
		return fmt.Sprintf("%d beats passed before the one before was answered", f.Missed)
	}
	return ""
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Unexpected is how many refused calls are more than the recording explains, which has a
// share of them refused. Three standard deviations are chance.
func Unexpected(refused, answered int, recorded float64) int {
	n := float64(answered)
	explained := recorded*n + 3*math.Sqrt(recorded*(1-recorded)*n)
	return max(0, refused-int(math.Ceil(explained)))
}
