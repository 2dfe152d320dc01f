// Package fold finds the loops in sequences of symbols.
//
// The smallest body is folded first. Two loops with the same body are the same loop,
// whatever their counts, and a body that occurs once but is a loop elsewhere becomes
// a loop of one iteration: (addBlock, received, received), (addBlock, received)
// become two iterations of addBlock (received)*. PatternMiner's Algorithm 1 prefers
// the loop that covers most calls. Where inner counts vary, that finds loops by
// accident that span two iterations; and it takes cubic time, this one pass for each
// period.
package fold

import "encoding/binary"

// A Symbol is a call site, or a loop when it is negative.
type Symbol int32

// An Item is one symbol of a folded sequence. A loop keeps its iterations.
type Item struct {
	Symbol Symbol
	Iters  [][]Item
}

// Loops are the bodies of loops by their (negative) symbols.
type Loops struct {
	bodies [][]Symbol
	ids    map[string]Symbol
}

// Body gives the symbols of a loop's body.
func (l *Loops) Body(s Symbol) []Symbol { return l.bodies[-1-s] }

// IsLoop reports whether a symbol is a loop.
func (s Symbol) IsLoop() bool { return s < 0 }

// maxPeriod is how long a loop's body may be, in folded symbols. It bounds the time,
// which is the length of the log for each period. Bodies are short once inner loops are
// folded: 16 or 512 give the same loops in the recorded systems.
const maxPeriod = 256

// Sequences folds several sequences together, so that a loop seen in one is
// known in all.
func Sequences(in [][]Symbol) ([][]Item, *Loops) {
	f := folder{loops: &Loops{ids: map[string]Symbol{}}}
	for _, seq := range in {
		items := make([]Item, len(seq))
		for i, s := range seq {
			items[i] = Item{Symbol: s}
		}
		f.seqs = append(f.seqs, items)
	}
	longest := 0
	for _, s := range f.seqs {
		longest = max(longest, len(s))
	}
	for p := 1; p <= min(maxPeriod, longest/2); {
		if f.pass(p) {
			f.promote()
			p = 1
			continue
		}
		p++
	}
	return f.seqs, f.loops
}

type folder struct {
	seqs  [][]Item
	loops *Loops
}

// pass folds all repetitions of one period, and reports whether there were any.
func (f *folder) pass(p int) bool {
	any := false
	for i, seq := range f.seqs {
		if folded, ok := f.repetitions(seq, p); ok {
			f.seqs[i] = folded
			any = true
		}
	}
	return any
}

// repetitions folds the repetitions of period p in one sequence.
func (f *folder) repetitions(seq []Item, p int) ([]Item, bool) {
	if len(seq) < 2*p {
		return seq, false
	}
	var out []Item
	done := 0 // seq[:done] is in out
	for i := 0; i+p < len(seq); {
		if seq[i].Symbol != seq[i+p].Symbol {
			i++
			continue
		}
		end := i
		for end+p < len(seq) && seq[end].Symbol == seq[end+p].Symbol {
			end++
		}
		if times := (end-i)/p + 1; times >= 2 {
			out = append(out, seq[done:i]...)
			out = append(out, f.loop(seq[i:i+times*p], p))
			done = i + times*p
			i = done
			continue
		}
		i = end
	}
	if done == 0 {
		return seq, false
	}
	return append(out, seq[done:]...), true
}

// loop makes one item of several iterations of length p. Loops with the same body
// that follow each other become one.
func (f *folder) loop(items []Item, p int) Item {
	if p == 1 && items[0].Symbol.IsLoop() {
		out := Item{Symbol: items[0].Symbol}
		for _, it := range items {
			out.Iters = append(out.Iters, it.Iters...)
		}
		return out
	}
	body := make([]Symbol, p)
	for i := range body {
		body[i] = items[i].Symbol
	}
	out := Item{Symbol: f.loops.symbol(body)}
	for i := 0; i < len(items); i += p {
		out.Iters = append(out.Iters, items[i:i+p:i+p])
	}
	return out
}

func (l *Loops) symbol(body []Symbol) Symbol {
	var key []byte
	for _, s := range body {
		key = binary.LittleEndian.AppendUint32(key, uint32(s))
	}
	if s, ok := l.ids[string(key)]; ok {
		return s
	}
	l.bodies = append(l.bodies, append([]Symbol(nil), body...))
	s := Symbol(-len(l.bodies))
	l.ids[string(key)] = s
	return s
}

// promote turns bodies of known loops that occur once into loops of one iteration.
func (f *folder) promote() {
	for i := range f.seqs {
		f.seqs[i] = f.promoteIn(f.seqs[i])
	}
}

func (f *folder) promoteIn(seq []Item) []Item {
	byFirst := map[Symbol][]Symbol{}
	for i, body := range f.loops.bodies {
		byFirst[body[0]] = append(byFirst[body[0]], Symbol(-1-i))
	}
	out := seq[:0:0]
	for i := 0; i < len(seq); {
		matched := false
		for _, s := range byFirst[seq[i].Symbol] {
			body := f.loops.Body(s)
			if matches(seq[i:], body) {
				out = append(out, Item{Symbol: s, Iters: [][]Item{seq[i : i+len(body) : i+len(body)]}})
				i += len(body)
				matched = true
				break
			}
		}
		if !matched {
			out = append(out, seq[i])
			i++
		}
	}
	return out
}

func matches(seq []Item, body []Symbol) bool {
	if len(seq) < len(body) {
		return false
	}
	for i, s := range body {
		if seq[i].Symbol != s {
			return false
		}
	}
	return true
}
