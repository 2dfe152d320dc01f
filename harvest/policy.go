package harvest

import (
	"math/rand/v2"
	"strings"

	"gleaner/cluster"
	"gleaner/input"
)

// Facts are what is known of one server when a policy is asked.
type Facts struct {
	Size    cluster.Resources
	Reserve cluster.Resources // kept free for the primary to burst into
	Primary cluster.Resources // what it uses now, rounded up
	Recent  cluster.Resources // the most it used in the last while
	Pressed bool              // tasks have been waiting for half an hour
	Past    *Past
}

// A Policy says how much harvested tasks may hold on a server, all together,
// and of that how much it will surely be able to leave them. A server with so
// much left of either is chosen with probability proportional to its weight.
type Policy interface {
	Room(Facts) (may, surely cluster.Resources)
	Weight(left, surely cluster.Resources) int64
}

// inTurn serves servers as their heartbeats come in, whatever room they have:
// what a resource manager does by default (OSDI'16 §5.3).
type inTurn struct{}

func (inTurn) Weight(_, _ cluster.Resources) int64 { return 1 }

// byRoom balances: twice the room, twice the chance (§5.3).
type byRoom struct{}

func (byRoom) Weight(left, _ cluster.Resources) int64 { return int64(left.CPU) }

// A ClassPicker is a policy that also says where: it picks the classes whose
// servers a job's tasks may go to. Without any, and under policies that do not
// pick, tasks go wherever there is room.
type ClassPicker interface {
	Policy
	Classes(ask Ask, classes []ClassState, r *rand.Rand, picked []int) []int
}

// An Ask is a job's question for classes.
type Ask struct {
	Kind Length
	Need cluster.Resources // at once
	Has  []int             // classes it has, which turn out to be too small
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

// Guarded reports whether servers under p are guarded: under stock nobody
// keeps the primary's reserve (OSDI'16 §6.1, YARN-Stock).
func Guarded(p Policy) bool {
	_, unaware := p.(stock)
	return !unaware
}

// primary knows what the primary uses now and nothing else (YARN-PT).
type primary struct{ inTurn }

func (primary) Room(f Facts) (may, surely cluster.Resources) { return same(f.now()) }

// osdi16 is the paper's, as written (YARN-H/Tez-H): on a server it counts as
// primary does, but a job's tasks go only to classes that had room for as long
// as the job runs when it asked.
type osdi16 struct{ byRoom }

func (osdi16) Room(f Facts) (may, surely cluster.Resources) { return same(f.now()) }

func (osdi16) Classes(ask Ask, classes []ClassState, r *rand.Rand, picked []int) []int {
	if len(ask.Has) > 0 {
		return append(picked, ask.Has...)
	}
	return Select(ask.Kind, ask.Need, classes, r, picked)
}

// history is ours. It differs from the paper in three ways. What a primary gave
// back a moment ago it may want again the next, so a server's use is counted
// as its highest of the last while, unless tasks have waited for long. Servers
// that have room beside the most their primary is seen to use are preferred.
// And room is not left idle: a job for which no class has room as long as it
// runs asks as if it were shorter, and asks again when its classes turn out to
// be too small.
type history struct{}

const (
	prefer   = 100  // how much likelier sure room is taken than other room
	sureFrom = 0.99 // the share of its time that a primary leaves sure room
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

// stock counts what was handed out and does not know primaries (YARN-Stock).
type stock struct{ inTurn }

func (stock) Room(f Facts) (may, surely cluster.Resources) { return same(f.Size) }

// now is what is left beside the reserve and what the primary uses now.
func (f Facts) now() cluster.Resources { return f.Size.Sub(f.Reserve).Sub(f.Primary) }

// same is the room of a policy that tells no sure room from other room.
func same(room cluster.Resources) (may, surely cluster.Resources) { return room, room }

// below is the room of a policy that expects the primary's CPU to reach peak,
// a share of the server. The reserve is kept from what it uses now: a peak
// that is foreseen needs no reserve of its own.
func (f Facts) below(peak float64) (may, surely cluster.Resources) {
	left := f.Size
	left.CPU -= cluster.MilliCPU(peak * float64(f.Size.CPU))
	left.Memory -= f.Primary.Memory
	return same(left.Min(f.now()))
}

// koordinator hands out what is left of 60% of a server above the larger of
// the primary's use and its predicted peak: the 95th percentile of a histogram
// in which half a day halves the weight, plus a tenth.
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
