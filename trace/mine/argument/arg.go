package argument

import (
	"math"
	"strings"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/flow"
	"gleaner/trace/mine/intern"
	"gleaner/trace/mine/site"
	"gleaner/trace/program"
)

// An arg is one argument of a site and how it is known.
type arg struct {
	*site.Arg
	peers []*arg // all arguments of the site

	count    int           // occurrences so far, in the pass that is under way
	total    int           // occurrences in all
	value    intern.Symbol // the first value
	constant bool          // there is no other value
	stride   int           // one occurrence of so many is kept
	occs     []flow.Occ
	whole    *slot
	words    []*slot // set when the values differ only in their words
	pattern  string  // then: what stands between the words

	steadiness, lastingness answer
}

type answer uint8

const (
	unasked answer = iota
	yes
	no
)

// maxOccs is about how many occurrences of an argument are kept, spread evenly. It
// bounds the time: every rule is tried on all of them. Half loses 0.3% of Hadoop's
// arguments, twice gains one argument.
const maxOccs = 1024

// A slot is what a rule gives: a whole value, or one word of a text.
type slot struct {
	arg     *arg
	word    int    // -1: the whole value
	prefix  string // letters before the number that a word ends in
	width   int    // of a number padded with zeros
	rules   []rule
	solved  class
	placed  bool   // solved by its place alone
	unbegun bool   // solved, but the first calls have no value
	also    []rule // other rules that give the same values
	guess   []rule // right more often than wrong: written to the program, but the argument counts as unknown
	listed  *slot  // the same values, taken from a list in a reply
}

// early reports whether the argument is known without other arguments of its call.
func (a *arg) early() bool {
	if a.constant || a.whole == nil {
		return a.constant
	}
	if a.whole.placed {
		return true
	}
	for _, w := range a.words {
		if !w.placed {
			return false
		}
	}
	return len(a.words) > 0
}

// A class is how an argument's value is known (PatternMiner, Table IV).
type class uint8

const (
	unknown class = iota
	constant
	regular
	fromFlow
)

// occurrences counts the arguments of all calls, and keeps a sample of those
// that vary.
func (s *Rules) occurrences(runs []*corpus.Recording) {
	s.eachArg(runs, func(a *arg, o flow.Occ) {
		v := o.Raw()
		if a.count == 0 {
			a.value, a.constant = v, true
		}
		a.constant = a.constant && v == a.value
		a.count++
		a.total++
	})
	s.eachArg(runs, func(a *arg, o flow.Occ) {
		if a.constant {
			return
		}
		if a.stride == 0 {
			a.stride = 1 + a.count/maxOccs
		}
		if a.whole == nil {
			a.whole = &slot{arg: a, word: -1}
			a.count = 0
		}
		if a.count%a.stride == 0 {
			a.occs = append(a.occs, o)
		}
		a.count++
	})
}

func (s *Rules) eachArg(runs []*corpus.Recording, visit func(*arg, flow.Occ)) {
	for _, r := range runs {
		for i := range r.Calls {
			call := &r.Calls[i]
			if call.Site == corpus.NoSite {
				continue
			}
			for pos, p := range s.sites.All[call.Site].Plan(s.c, call.Request.Shape) {
				visit(s.of[call.Site][p.Arg], flow.Occ{In: r, Call: int32(i), Pos: int32(pos), Star: p.Star})
			}
		}
	}
}

// value is what a slot held at an occurrence; not ok when the text has no such word.
func (s *slot) value(c *corpus.Corpus, o flow.Occ) (intern.Symbol, bool) {
	v := o.Raw()
	if s.word >= 0 {
		words := c.Syms.Words(v)
		if s.word >= len(words) {
			return 0, false
		}
		v = words[s.word]
	}
	if s.prefix != "" {
		rest, ok := strings.CutPrefix(c.Syms.Text[v], s.prefix)
		if !ok || !intern.AllDigits(rest) {
			return 0, false
		}
		v = c.Syms.ID(rest)
	}
	return c.Syms.Canonical(v), true
}

// split makes a slot of each word, if the values of an argument differ in their
// words only, and are no data.
func (a *arg) split(c *corpus.Corpus) {
	if a.Kind != trace.String {
		return
	}
	pattern := intern.Separators(c.Syms.Text[a.value])
	count := len(c.Syms.Words(a.value))
	if count == 0 || count > flow.MaxWords || len(c.Syms.Text[a.value]) > flow.MaxLength {
		return
	}
	for _, o := range a.occs {
		if intern.Separators(c.Syms.Text[o.Raw()]) != pattern {
			return
		}
	}
	var slots []*slot
	for w := range count {
		s := &slot{arg: a, word: w}
		s.shape(c)
		slots = append(slots, s)
	}
	if count > 1 || pattern != intern.Blank || slots[0].prefix != "" {
		a.pattern, a.words = pattern, slots
	}
}

// shape finds what the words of a slot have in common: letters before a
// number, and a number filled up with zeros to one width.
func (s *slot) shape(c *corpus.Corpus) {
	texts := make([]string, len(s.arg.occs))
	for i, o := range s.arg.occs {
		texts[i] = c.Syms.Text[c.Syms.Words(o.Raw())[s.word]]
	}
	prefix := strings.TrimRight(texts[0], "0123456789")
	width, padded := len(texts[0])-len(prefix), false
	for _, text := range texts {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok || !intern.AllDigits(rest) {
			return
		}
		if len(rest) != width {
			width = 0
		}
		padded = padded || len(rest) > 1 && rest[0] == '0'
	}
	s.prefix = prefix
	if padded && width <= program.MaxWidth {
		s.width = width
	}
}

// class is the class of the argument: that of its least known part.
func (a *arg) class() class {
	if a.constant {
		return constant
	}
	if a.whole == nil {
		return unknown
	}
	if a.whole.solved != unknown || len(a.words) == 0 {
		return a.whole.solved
	}
	out := constant
	for _, s := range a.words {
		if s.solved == unknown {
			return unknown
		}
		out = max(out, s.solved)
	}
	return out
}

// slots are those whose rules give the argument.
func (a *arg) slots() []*slot {
	switch {
	case a.whole == nil:
		return nil
	case a.whole.solved != unknown || len(a.words) == 0 || a.class() == unknown && a.whole.guess != nil:
		return []*slot{a.whole}
	}
	return a.words
}

// steady reports whether the argument has one value in each run: then it does not
// tell calls apart.
func (a *arg) steady() bool {
	if a.steadiness == unasked {
		a.steadiness = yes
		for i := 1; i < len(a.occs); i++ {
			if a.occs[i].In == a.occs[i-1].In && a.occs[i].Raw() != a.occs[i-1].Raw() {
				a.steadiness = no
				break
			}
		}
	}
	return a.steadiness == yes
}

// drawnOut reports whether two calls in a row of one run begin further apart than a time.
func (a *arg) drawnOut(time int64) bool {
	for i := 1; i < len(a.occs); i++ {
		if a.occs[i].In == a.occs[i-1].In && a.occs[i].CallOf().Start-a.occs[i-1].CallOf().Start > time {
			return true
		}
	}
	return false
}

// lasting reports whether the argument seldom changes from one call of a sender to its next.
func (a *arg) lasting() bool {
	if a.lastingness == unasked {
		changes, last := 0, map[*corpus.Sender]intern.Symbol{}
		for _, o := range a.occs {
			by := o.CallOf().Sender
			if v, ok := last[by]; ok && v != o.Raw() {
				changes++
			}
			last[by] = o.Raw()
		}
		if a.lastingness = no; a.rarely(changes, len(a.occs)) {
			a.lastingness = yes
		}
	}
	return a.lastingness == yes
}

// wrong is the share of occurrences in which a rule may be wrong: values change
// late, logs lose lines. Half leaves two more arguments of Hadoop unknown; twice
// explains two more, and gets fewer values right.
const wrong = 0.05

// rarely reports whether a rule with so many misses is wrong in no more than the
// share allowed. Of a sample, one standard deviation more is allowed.
func (a *arg) rarely(misses, of int) bool {
	allowed := wrong * float64(of)
	if a.stride > 1 {
		allowed += math.Sqrt((1 - wrong) * allowed)
	}
	return float64(misses) <= allowed
}

// best are the slot's rules or, if it has none, the guess.
func (s *slot) best() []rule {
	if s.solved == unknown {
		return s.guess
	}
	return s.rules
}

// spread picks up to n occurrences of each run, the first and the last among them.
func (a *arg) spread(n int) []flow.Occ {
	var out []flow.Occ
	for start := 0; start < len(a.occs); {
		end := start
		for end < len(a.occs) && a.occs[end].In == a.occs[start].In {
			end++
		}
		picked := min(n, end-start)
		for i := range picked {
			at := start
			if picked > 1 {
				at += i * (end - start - 1) / (picked - 1)
			}
			out = append(out, a.occs[at])
		}
		start = end
	}
	return out
}
