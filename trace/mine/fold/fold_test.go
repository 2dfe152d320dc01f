package fold

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parse(s string) []Symbol {
	var out []Symbol
	for _, c := range s {
		out = append(out, Symbol(c))
	}
	return out
}

func show(items []Item, l *Loops) string {
	var out strings.Builder
	for _, it := range items {
		if !it.Symbol.IsLoop() {
			out.WriteRune(rune(it.Symbol))
			continue
		}
		fmt.Fprintf(&out, "(%s)%d", body(l, it.Symbol), len(it.Iters))
	}
	return out.String()
}

func body(l *Loops, s Symbol) string {
	var out strings.Builder
	for _, b := range l.Body(s) {
		if b.IsLoop() {
			out.WriteString("(" + body(l, b) + ")*")
		} else {
			out.WriteRune(rune(b))
		}
	}
	return out.String()
}

func unfold(items []Item) []Symbol {
	var out []Symbol
	for _, it := range items {
		if !it.Symbol.IsLoop() {
			out = append(out, it.Symbol)
		}
		for _, iter := range it.Iters {
			out = append(out, unfold(iter)...)
		}
	}
	return out
}

func TestFold(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"rlcwccwccwc", "rl((c)*w)3(c)1"}, // the same calls, one further on
		{"rlcwxcwxcwx", "rl(cwx)3"},       // PatternMiner, Figure 3
		{"abbbcabcabbc", "(a(b)*c)3"},
		{"haxbaxxbaxxxbt", "h(a(x)*b)3t"},
		{"abcdef", "abcdef"},
		{"aaaa", "(a)4"},
	} {
		got, loops := Sequences([][]Symbol{parse(tc.in)})
		if s := show(got[0], loops); s != tc.want {
			t.Errorf("%s: %s, want %s", tc.in, s, tc.want)
		}
	}
}

// TestTogether: what occurs once in a small run is a loop, because a larger
// run shows it to be one (§III-B2, cross validation).
func TestTogether(t *testing.T) {
	got, loops := Sequences([][]Symbol{parse("rcwx"), parse("rcwxcwxcwx")})
	if a, b := show(got[0], loops), show(got[1], loops); a != "r(cwx)1" || b != "r(cwx)3" {
		t.Errorf("got %s and %s", a, b)
	}
}

// TestUnfoldingGivesBack: whatever is folded, nothing is lost.
func TestUnfoldingGivesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in [][]Symbol
		for range rapid.IntRange(1, 3).Draw(t, "sequences") {
			in = append(in, parse(rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 40, -1).Draw(t, "seq")))
		}
		got, _ := Sequences(in)
		for i := range in {
			if a, b := fmt.Sprint(in[i]), fmt.Sprint(unfold(got[i])); a != b && len(in[i]) > 0 {
				t.Fatalf("%s became %s", a, b)
			}
		}
	})
}

func BenchmarkFold(b *testing.B) {
	for _, files := range []int{1000, 100000} {
		var seq []Symbol
		for i := range files {
			seq = append(seq, parse("gc")...)
			for range i%4 + 1 {
				seq = append(seq, parse("arrr")...)
			}
			seq = append(seq, parse("f"+strings.Repeat("c", i%3+1)+"s")...)
		}
		b.Run(fmt.Sprintf("%dcalls", len(seq)), func(b *testing.B) {
			for b.Loop() {
				Sequences([][]Symbol{seq})
			}
		})
	}
}
