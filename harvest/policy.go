package harvest

import (
	"math/rand/v2"
	"strings"

	"gleaner/cluster"
	"gleaner/input"
)

// Facts are what a policy decides by on one server.
type Facts struct {
	Size    cluster.Resources
	Reserve cluster.Resources // kept free for the primary to burst into
	Primary cluster.Resources // what it uses now, rounded up
	Recent  cluster.Resources // the most it used in the last while
	Pressed bool              // tasks have been waiting for half an hour
	Past    *Past
}

// A Policy decides how much harvested tasks together may hold on a server, and
// how much of that the primary will surely leave them. From what is left of
// both it computes a weight; the chance that a server is chosen is proportional
// to it.
type Policy interface {
	Room(Facts) (may, surely cluster.Resources)
	Weight(left, surely cluster.Resources) int64
}

// inTurn serves servers as their heartbeats come in, whatever room they have.
// This is the default of a resource manager (OSDI'16 §5.3).
type inTurn struct{}

func (inTurn) Weight(_, _ cluster.Resources) int64 { return 1 }

// byRoom balances: twice the room, twice the chance (§5.3).
type byRoom struct{}

func (byRoom) Weight(left, _ cluster.Resources) int64 { return int64(left.CPU) }

// A ClassPicker is a policy that also picks the classes on whose servers a job's
// tasks may run. If it picks none, and under other policies, tasks run wherever
// there is room.
type ClassPicker interface {
	Policy
	Classes(ask Ask, classes []ClassState, r *rand.Rand, picked []int) []int
}

// An Ask is a job's request for classes.
type Ask struct {
	Kind Length
	Need cluster.Resources // at once
	Has  []int             // classes it has, which are too small
}

// policies are all there are, by name, ours first.
var policies = []struct {
	name   string
	policy Policy
}{
	{"history", history{}},
	{"osdi16", osdi16{}},
	{"primary", primary{}},
	{"stock", stock{}},
	{"koordinator", koordinator{}},
	{"borg", borg{}},
	{"nsigma", nSigma{}},
	{"max", highest{}},
}

// PolicyNames lists the policies, ours first.
func PolicyNames() []string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.name
	}
	return names
}

// PolicyNamed finds a policy.
func PolicyNamed(name string) (Policy, error) {
	for _, p := range policies {
		if p.name == name {
			return p.policy, nil
		}
	}
	return nil, input.Errorf("", "no policy is called %q; there are %s", name, strings.Join(PolicyNames(), ", "))
}

// Guarded reports whether servers under p are guarded: under stock the
// primary's reserve is not kept (OSDI'16 §6.1, YARN-Stock).
func Guarded(p Policy) bool {
	_, unaware := p.(stock)
	return !unaware
}

// primary decides by what the primary uses now and nothing else (YARN-PT).
type primary struct{ inTurn }

func (primary) Room(f Facts) (may, surely cluster.Resources) { return same(f.now()) }

// osdi16 is the paper's policy as written (YARN-H/Tez-H): on a server it decides
// like primary, but a job's tasks run only in classes that had room for as long
// as the job runs when it asked.
type osdi16 struct{ byRoom }

func (osdi16) Room(f Facts) (may, surely cluster.Resources) { return same(f.now()) }

func (osdi16) Classes(ask Ask, classes []ClassState, r *rand.Rand, picked []int) []int {
	if len(ask.Has) > 0 {
		return append(picked, ask.Has...)
	}
	return Select(ask.Kind, ask.Need, classes, r, picked)
}

// history is ours. It differs from the paper in three ways. A primary may soon
// need again what it just gave back, so its use counts as the recent maximum,
// unless tasks have waited for long. Servers that have room beside nearly the
// highest use of their primary are preferred. And room is not left idle: if no
// class has room for as long as a job runs, the job asks as if it were shorter,
// and it asks again if its classes are too small.
type history struct{}

const (
	prefer   = 100  // how much likelier sure room is taken than other room
	sureFrom = 0.99 // share of the time for which a primary leaves sure room
)

func (history) Room(f Facts) (may, surely cluster.Resources) {
	may = f.Size.Sub(f.Reserve).Sub(f.Recent)
	if f.Pressed {
		may = f.now()
	}
	surely = may
	surely.CPU = min(may.CPU, f.Size.CPU-f.Reserve.CPU-cluster.MilliCPU(f.Past.Percentile(sureFrom)*float64(f.Size.CPU)))
	return may, surely
}

func (history) Weight(left, surely cluster.Resources) int64 {
	return int64(left.CPU) + (prefer-1)*int64(max(surely.CPU, 0))
}

func (history) Classes(ask Ask, classes []ClassState, r *rand.Rand, picked []int) []int {
	var buf [32]ClassState
	sure := append(buf[:0], classes...)
	for i := range sure {
		sure[i].Room = sure[i].Surely
	}
	if picked = Select(ask.Kind, ask.Need, sure, r, picked); len(picked) > 0 {
		return picked
	}
	for kind := ask.Kind; ; kind-- {
		if picked = Select(kind, ask.Need, classes, r, picked); len(picked) > 0 || kind == Short {
			return picked
		}
	}
}

// stock counts what was handed out and ignores primaries (YARN-Stock).
type stock struct{ inTurn }

func (stock) Room(f Facts) (may, surely cluster.Resources) { return same(f.Size) }

// now is what is left beside the reserve and what the primary uses now.
func (f Facts) now() cluster.Resources { return f.Size.Sub(f.Reserve).Sub(f.Primary) }

// same is the room of a policy for which all room is sure.
func same(room cluster.Resources) (may, surely cluster.Resources) { return room, room }

// below is the room of a policy that expects the primary's CPU to reach peak,
// a share of the server. The reserve comes on top of the present use only: a
// predicted peak needs none.
func (f Facts) below(peak float64) (may, surely cluster.Resources) {
	left := f.Size
	left.CPU -= cluster.MilliCPU(peak * float64(f.Size.CPU))
	left.Memory -= f.Primary.Memory
	return same(left.Min(f.now()))
}

// koordinator hands out 60% of a server less the larger of the primary's use and
// its predicted peak: the 95th percentile of a histogram whose weights halve in
// half a day, plus a tenth.
type koordinator struct{ byRoom }

const (
	koordinatorReclaim = 0.60
	koordinatorMargin  = 1.10
)

func (koordinator) Room(f Facts) (may, surely cluster.Resources) {
	now := float64(f.Primary.CPU) / float64(f.Size.CPU)
	return f.below(1 - koordinatorReclaim + max(now, koordinatorMargin*f.Past.Percentile(0.95)))
}

// borg expects nine tenths of what primaries may ask for to be used at the
// peak; a primary that owns its server may ask for all of it.
type borg struct{ byRoom }

const borgShare = 0.9

func (borg) Room(f Facts) (may, surely cluster.Resources) { return f.below(borgShare) }

// nSigma expects the mean and five standard deviations above it.
type nSigma struct{ byRoom }

const sigmas = 5

func (nSigma) Room(f Facts) (may, surely cluster.Resources) {
	mean, deviation := f.Past.Sigma()
	return f.below(min(mean+sigmas*deviation, 1))
}

// highest expects the larger of nSigma's peak and the 99th percentile.
type highest struct{ byRoom }

func (highest) Room(f Facts) (may, surely cluster.Resources) {
	mean, deviation := f.Past.Sigma()
	return f.below(min(max(mean+sigmas*deviation, f.Past.Percentile(0.99)), 1))
}
