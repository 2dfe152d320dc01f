// Package kind sorts senders into types of nodes by what they call (PatternMiner
// §III-B1), and gives every sender its rank in its type.
package kind

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/intern"
)

// Alike is how similar the histograms of two senders must be for one type
// (PatternMiner §III-B1): the cosine of the square roots of their counts. Without
// the root a heartbeat would outweigh everything else; with it, a node that got no
// work is still similar to its neighbours by its heartbeat. In the recorded systems
// 0.7 to 0.9 give the same types; with 0.6, Kubernetes' types merge and 4% of its
// sequences are lost, and with 0.35 half of Hadoop's.
const Alike = 0.7

// A Kind is a group of senders that behave alike.
type Kind struct {
	Name    string
	profile map[corpus.OpID]float64 // mean root count of a call by one of its nodes
}

// A crowd is the senders that call the same set of things.
type crowd struct {
	ops     []corpus.OpID
	sum     map[corpus.OpID]float64
	members []*corpus.Sender
	runs    map[*corpus.Recording]bool // that have some of them
}

// Find sorts the senders of all runs into types. The user's rules come first.
func Find(c *corpus.Corpus, runs []*corpus.Recording, rules []Rule) []*Kind {
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
			if find(i) != find(j) && Cosine(crowds[i].sum, crowds[j].sum) >= Alike {
				parent[find(i)] = find(j)
			}
		}
	}
	takeTurns(crowds, parent, find)
	var types []*Kind
	kinds := map[int]int{}
	for i, cr := range crowds {
		root := find(i)
		if _, ok := kinds[root]; !ok {
			kinds[root] = len(types)
			types = append(types, &Kind{profile: map[corpus.OpID]float64{}})
		}
		t := types[kinds[root]]
		for op, v := range cr.sum {
			t.profile[op] += v
		}
		for _, s := range cr.members {
			s.Kind = kinds[root]
		}
	}
	nameTypes(c, types, runs)
	types = override(c, types, runs, rules)
	for _, r := range runs {
		rank(c, r, len(types))
	}
	return types
}

// takeTurns joins two types if no run has both and one makes only calls that the
// other makes too: at small scales a node may have little to do.
func takeTurns(crowds []*crowd, parent []int, find func(int) int) {
	ops, runs := map[int]map[corpus.OpID]bool{}, map[int]map[*corpus.Recording]bool{}
	var roots []int
	for i, cr := range crowds {
		root := find(i)
		if ops[root] == nil {
			ops[root], runs[root] = map[corpus.OpID]bool{}, map[*corpus.Recording]bool{}
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

// A Rule is the user's word on which senders are of one type.
type Rule struct {
	Name    string         `yaml:"type"`
	Senders *regexp.Regexp `yaml:"senders"`
}

// override puts senders into the types of the user's rules, and drops types without
// senders.
func override(c *corpus.Corpus, types []*Kind, runs []*corpus.Recording, rules []Rule) []*Kind {
	for i := range rules {
		types = append(types, &Kind{Name: rules[i].Name, profile: map[corpus.OpID]float64{}})
	}
	used := make([]int, len(types))
	for _, r := range runs {
		for _, s := range r.Senders {
			if k, ok := ruled(c, s, rules); ok {
				s.Kind = len(types) - len(rules) + k
				for op, v := range Profile(r, s) {
					types[s.Kind].profile[op] += v
				}
			}
			used[s.Kind]++
		}
	}
	var out []*Kind
	to := make([]int, len(types))
	for k, t := range types {
		if used[k] > 0 {
			for k < len(types)-len(rules) && slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == t.Name }) {
				t.Name += "~" // the user's names come first
			}
			to[k] = len(out)
			out = append(out, t)
		}
	}
	for _, r := range runs {
		for _, s := range r.Senders {
			s.Kind = to[s.Kind]
		}
	}
	return out
}

// ruled is the first rule that names a sender, or the first for the same type.
func ruled(c *corpus.Corpus, s *corpus.Sender, rules []Rule) (int, bool) {
	for i := range rules {
		if rules[i].Senders.MatchString(c.Syms.Text[s.Name]) {
			return slices.IndexFunc(rules, func(r Rule) bool { return r.Name == rules[i].Name }), true
		}
	}
	return 0, false
}

// gather puts senders that call the same set of things together, the largest crowd
// first. Crowds are compared in pairs, and there are far fewer of them than senders.
func gather(runs []*corpus.Recording) []*crowd {
	byKey := map[string]*crowd{}
	for _, r := range runs {
		for _, s := range r.Senders {
			calls := Profile(r, s)
			ops := make([]corpus.OpID, 0, len(calls))
			for op := range calls {
				ops = append(ops, op)
			}
			slices.Sort(ops)
			key := fmt.Sprint(ops)
			if byKey[key] == nil {
				byKey[key] = &crowd{ops: ops, sum: map[corpus.OpID]float64{}, runs: map[*corpus.Recording]bool{}}
			}
			cr := byKey[key]
			cr.runs[r] = true
			cr.members = append(cr.members, s)
			for op, v := range calls {
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

// Profile is the square root of how often a sender calls each thing.
func Profile(r *corpus.Recording, s *corpus.Sender) map[corpus.OpID]float64 {
	out := map[corpus.OpID]float64{}
	for _, i := range s.Calls {
		out[r.Calls[i].Op]++
	}
	for op, v := range out {
		out[op] = math.Sqrt(v)
	}
	return out
}

// Cosine is how similar two histograms are.
func Cosine(a, b map[corpus.OpID]float64) float64 {
	if len(b) < len(a) {
		a, b = b, a
	}
	dot := 0.0
	for op, v := range a {
		dot += v * b[op]
	}
	return dot / (norm(a)*norm(b) + 1e-12) // no division by zero where one is empty
}

func norm(v map[corpus.OpID]float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// Assign gives every sender of a run the learned type that it is most similar to.
func Assign(c *corpus.Corpus, r *corpus.Recording, types []*Kind, rules []Rule) {
	for _, s := range r.Senders {
		calls, best := Profile(r, s), -1.0
		rule, ruled := ruled(c, s, rules)
		for k, t := range types {
			if ruled && t.Name == rules[rule].Name {
				s.Kind = k
				break
			}
			if like := Cosine(calls, t.profile); like > best {
				s.Kind, best = k, like
			}
		}
	}
	rank(c, r, len(types))
}

// rank numbers the senders of each type: by the numbers in their names if the names
// differ in nothing else, otherwise in the order of their first calls.
func rank(c *corpus.Corpus, r *corpus.Recording, types int) {
	byType := make([][]*corpus.Sender, types)
	for _, s := range r.Senders {
		byType[s.Kind] = append(byType[s.Kind], s)
	}
	for _, group := range byType {
		if numbered(c, group) {
			slices.SortFunc(group, func(a, b *corpus.Sender) int { return intern.Natural(c.Syms.Text[a.Name], c.Syms.Text[b.Name]) })
		} else {
			slices.SortStableFunc(group, func(a, b *corpus.Sender) int { return cmp.Compare(began(r, a), began(r, b)) })
		}
		for i, s := range group {
			s.Rank = i
		}
	}
}

// numbered reports whether names differ in their numbers only.
func numbered(c *corpus.Corpus, group []*corpus.Sender) bool {
	return !slices.ContainsFunc(group, func(s *corpus.Sender) bool {
		return maskDigits(c.Syms.Text[s.Name]) != maskDigits(c.Syms.Text[group[0].Name])
	})
}

// began is when a sender made its first call; the end of time for a sender whose
// calls all stand in the logs of others.
func began(r *corpus.Recording, s *corpus.Sender) int64 {
	if len(s.Calls) == 0 {
		return math.MaxInt64
	}
	return r.Calls[s.Calls[0]].Start
}

// nameTypes names each type by what its senders' names have in common.
func nameTypes(c *corpus.Corpus, types []*Kind, runs []*corpus.Recording) {
	names := make([][]string, len(types))
	for _, r := range runs {
		for _, s := range r.Senders {
			names[s.Kind] = append(names[s.Kind], c.Syms.Text[s.Name])
		}
	}
	used := map[string]int{}
	for k, t := range types {
		t.Name = common(names[k])
		if t.Name == "" {
			t.Name = "node"
		}
		if used[t.Name]++; used[t.Name] > 1 {
			t.Name = fmt.Sprintf("%s~%d", t.Name, used[t.Name])
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

// UnmarshalYAML reads a type rule; senders is a regular expression.
func (t *Rule) UnmarshalYAML(n *yaml.Node) error {
	var plain struct {
		Name    string `yaml:"type"`
		Senders string `yaml:"senders"`
	}
	if err := n.Decode(&plain); err != nil {
		return err
	}
	pattern, err := regexp.Compile("^(?:" + plain.Senders + ")$")
	if err != nil || plain.Name == "" || plain.Senders == "" {
		return fmt.Errorf("line %d: a type has a name and a regular expression of its senders", n.Line)
	}
	t.Name, t.Senders = plain.Name, pattern
	return nil
}
