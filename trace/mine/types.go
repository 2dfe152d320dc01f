package mine

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// alike is how similar the histograms of two senders must be for one type
// (PatternMiner §III-B1): the cosine of the roots of their counts. The root
// keeps a heartbeat from drowning everything else, and a node that got no work
// is still like its neighbours by its heartbeat.
const alike = 0.7

// A nodeType is a group of senders that behave alike.
type nodeType struct {
	name    string
	profile map[opID]float64 // mean root count of a call by one of its nodes
}

// A crowd is the senders that call the same set of things.
type crowd struct {
	ops     []opID
	sum     map[opID]float64
	members []*sender
	runs    map[*Run]bool // that have some of them
}

// findTypes sorts the senders of all runs into types, by behaviour alone.
func (c *Corpus) findTypes(runs []*Run) []*nodeType {
	crowds := gather(runs)
	parent := make([]int, len(crowds))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	for i := range crowds {
		for j := range i {
			if find(i) != find(j) && cosine(crowds[i].sum, crowds[j].sum) >= alike {
				parent[find(i)] = find(j)
			}
		}
	}
	takeTurns(crowds, parent, find)
	var types []*nodeType
	kinds := map[int]int{}
	for i, cr := range crowds {
		root := find(i)
		if _, ok := kinds[root]; !ok {
			kinds[root] = len(types)
			types = append(types, &nodeType{profile: map[opID]float64{}})
		}
		t := types[kinds[root]]
		for op, v := range cr.sum {
			t.profile[op] += v
		}
		for _, s := range cr.members {
			s.kind = kinds[root]
		}
	}
	c.nameTypes(types, runs)
	types = c.override(types, runs)
	for _, r := range runs {
		c.rank(r, len(types))
	}
	return types
}

// takeTurns joins types of which no run has both, where one does nothing that
// the other does not: at small scales a node may have little to do.
func takeTurns(crowds []*crowd, parent []int, find func(int) int) {
	ops, runs := map[int]map[opID]bool{}, map[int]map[*Run]bool{}
	var roots []int
	for i, cr := range crowds {
		root := find(i)
		if ops[root] == nil {
			ops[root], runs[root] = map[opID]bool{}, map[*Run]bool{}
			roots = append(roots, root)
		}
		for _, op := range cr.ops {
			ops[root][op] = true
		}
		for r := range cr.runs {
			runs[root][r] = true
		}
	}
	for _, a := range roots {
		for _, b := range roots {
			if find(a) != a || find(b) != b || a == b || !within(ops[a], ops[b]) || meet(runs[a], runs[b]) {
				continue
			}
			parent[a] = b
			maps.Copy(runs[b], runs[a])
		}
	}
}

func within[K comparable](a, b map[K]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

func meet[K comparable](a, b map[K]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

// A TypeRule says which senders are of one type, where behaviour alone is not
// to decide.
type TypeRule struct {
	Name    string         `yaml:"type"`
	Senders *regexp.Regexp `yaml:"senders"`
}

// override puts senders into the types the user named, and drops types that
// have nobody left.
func (c *Corpus) override(types []*nodeType, runs []*Run) []*nodeType {
	for i := range c.TypeRules {
		types = append(types, &nodeType{name: c.TypeRules[i].Name, profile: map[opID]float64{}})
	}
	used := make([]int, len(types))
	for _, r := range runs {
		for _, s := range r.senders {
			if k, ok := c.ruled(s); ok {
				s.kind = len(types) - len(c.TypeRules) + k
				for op, v := range r.profile(s) {
					types[s.kind].profile[op] += v
				}
			}
			used[s.kind]++
		}
	}
	var out []*nodeType
	to := make([]int, len(types))
	for k, t := range types {
		if used[k] > 0 {
			to[k] = len(out)
			out = append(out, t)
		}
	}
	for _, r := range runs {
		for _, s := range r.senders {
			s.kind = to[s.kind]
		}
	}
	return out
}

// ruled is the first rule that names a sender.
func (c *Corpus) ruled(s *sender) (int, bool) {
	for i := range c.TypeRules {
		if c.TypeRules[i].Senders.MatchString(c.syms.Text[s.name]) {
			return i, true
		}
	}
	return 0, false
}

// gather puts senders that call the same set of things together, the largest
// first, so that what follows is quadratic in the ways to behave and not in
// the number of nodes.
func gather(runs []*Run) []*crowd {
	byKey := map[string]*crowd{}
	for _, r := range runs {
		for _, s := range r.senders {
			profile := r.profile(s)
			ops := make([]opID, 0, len(profile))
			for op := range profile {
				ops = append(ops, op)
			}
			slices.Sort(ops)
			key := fmt.Sprint(ops)
			if byKey[key] == nil {
				byKey[key] = &crowd{ops: ops, sum: map[opID]float64{}, runs: map[*Run]bool{}}
			}
			cr := byKey[key]
			cr.runs[r] = true
			cr.members = append(cr.members, s)
			for op, v := range profile {
				cr.sum[op] += v
			}
		}
	}
	out := make([]*crowd, 0, len(byKey))
	for _, cr := range byKey {
		out = append(out, cr)
	}
	slices.SortFunc(out, func(a, b *crowd) int {
		return cmp.Or(cmp.Compare(len(b.members), len(a.members)), slices.Compare(a.ops, b.ops))
	})
	return out
}

// profile is how often a sender calls what, as roots.
func (r *Run) profile(s *sender) map[opID]float64 {
	out := map[opID]float64{}
	for _, i := range s.calls {
		out[r.calls[i].op]++
	}
	for op, v := range out {
		out[op] = math.Sqrt(v)
	}
	return out
}

func cosine(a, b map[opID]float64) float64 {
	if len(b) < len(a) {
		a, b = b, a
	}
	dot := 0.0
	for op, v := range a {
		dot += v * b[op]
	}
	return dot / (norm(a)*norm(b) + 1e-12)
}

func norm(v map[opID]float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// assign gives every sender of a run the learned type it is most like.
func (c *Corpus) assign(r *Run, types []*nodeType) {
	for _, s := range r.senders {
		profile, best := r.profile(s), -1.0
		rule, ruled := c.ruled(s)
		for k, t := range types {
			if ruled && t.name == c.TypeRules[rule].Name {
				s.kind = k
				break
			}
			if like := cosine(profile, t.profile); like > best {
				s.kind, best = k, like
			}
		}
	}
	c.rank(r, len(types))
}

// rank numbers the senders of each type: by the numbers in their names where
// the names differ in nothing else, by the order in which they began where not.
func (c *Corpus) rank(r *Run, types int) {
	byType := make([][]*sender, types)
	for _, s := range r.senders {
		byType[s.kind] = append(byType[s.kind], s)
	}
	for _, group := range byType {
		if c.numbered(group) {
			slices.SortFunc(group, func(a, b *sender) int { return natural(c.syms.Text[a.name], c.syms.Text[b.name]) })
		} else {
			slices.SortStableFunc(group, func(a, b *sender) int { return cmp.Compare(r.began(a), r.began(b)) })
		}
		for i, s := range group {
			s.rank = i
		}
	}
}

// numbered reports whether names differ in their numbers only.
func (c *Corpus) numbered(group []*sender) bool {
	return !slices.ContainsFunc(group, func(s *sender) bool {
		return maskDigits(c.syms.Text[s.name]) != maskDigits(c.syms.Text[group[0].name])
	})
}

// began is when a sender made its first call; one whose calls all belong to
// others never did.
func (r *Run) began(s *sender) int64 {
	if len(s.calls) == 0 {
		return math.MaxInt64
	}
	return r.calls[s.calls[0]].start
}

// natural compares texts so that node-2 comes before node-10.
func natural(a, b string) int {
	for a != "" && b != "" {
		na, nb := len(a)-len(strings.TrimLeft(a, "0123456789")), len(b)-len(strings.TrimLeft(b, "0123456789"))
		if na > 0 && nb > 0 {
			da, db := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if d := cmp.Or(cmp.Compare(len(da), len(db)), cmp.Compare(da, db)); d != 0 {
				return d
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// nameTypes calls each type what its senders' names have in common.
func (c *Corpus) nameTypes(types []*nodeType, runs []*Run) {
	names := make([][]string, len(types))
	for _, r := range runs {
		for _, s := range r.senders {
			names[s.kind] = append(names[s.kind], c.syms.Text[s.name])
		}
	}
	used := map[string]int{}
	for k, t := range types {
		t.name = common(names[k])
		if t.name == "" {
			t.name = "node"
		}
		if used[t.name]++; used[t.name] > 1 {
			t.name = fmt.Sprintf("%s~%d", t.name, used[t.name])
		}
	}
}

// common is what names share once their numbers are taken out: the longest
// start and end.
func common(names []string) string {
	masked := make([]string, len(names))
	for i, n := range names {
		masked[i] = maskDigits(n)
	}
	start := masked[0]
	for _, m := range masked {
		for !strings.HasPrefix(m, start) {
			start = start[:len(start)-1]
		}
	}
	rest := masked[0][len(start):]
	for _, m := range masked {
		for !strings.HasSuffix(m[len(start):], rest) {
			rest = rest[1:]
		}
	}
	return strings.Trim(strings.ReplaceAll(start+rest, "#", ""), "-_:/. ")
}

func maskDigits(s string) string {
	var out strings.Builder
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			out.WriteByte(s[i])
		} else if i == 0 || s[i-1] < '0' || s[i-1] > '9' {
			out.WriteByte('#')
		}
	}
	return out.String()
}
