package search

import (
	"math/rand/v2"
	"strings"
)

// A Corpus is random documents: one seed gives one corpus. Word frequencies are as
// uneven as in natural language (Zipf).
type Corpus struct {
	Documents int
	Words     int // in the vocabulary
	Length    int // words in a document, on average
	Seed      uint64
}

// Usual is the corpus of the experiments: large enough for queries of some ten
// milliseconds, and small enough to be indexed in seconds.
var Usual = Corpus{Documents: 10_000, Words: 20_000, Length: 80, Seed: 1}

const (
	skew = 1.05 // of the words' frequencies
	rare = 10   // the first rank, so that no word is in every document
)

// text draws words by their frequency.
type text struct {
	rand  *rand.Rand
	ranks *rand.Zipf
}

func (c Corpus) text(r *rand.Rand) text {
	return text{r, rand.NewZipf(r, skew, rare, uint64(c.Words-1))}
}

func (t text) words(n int) string {
	var out strings.Builder
	for i := range n {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(word(t.ranks.Uint64()))
	}
	return out.String()
}

var syllables = strings.Fields("ba be bi bo bu da de di do du ga ge gi go gu ka ke ki ko ku la le li lo lu ma me mi mo mu na ne ni no nu ra re ri ro ru sa se si so su ta te ti to tu")

// word spells the word of that rank in syllables; no two are spelt alike.
func word(rank uint64) string {
	out := "z"
	for base := uint64(len(syllables)); ; rank /= base {
		out += syllables[rank%base]
		if rank < base {
			return out
		}
	}
}

// Each makes the documents, one after the other, until use fails.
func (c Corpus) Each(use func(body string) error) error {
	t := c.text(rand.New(rand.NewPCG(c.Seed, 1)))
	for range c.Documents {
		if err := use(t.words(c.Length/2 + t.rand.IntN(c.Length+1))); err != nil {
			return err
		}
	}
	return nil
}

// Queries draws n queries of one to three words, which are as common as in the
// documents: a few of them match much of the corpus and take long.
func (c Corpus) Queries(n int, r *rand.Rand) []string {
	t := c.text(r)
	all := make([]string, n)
	for i := range all {
		all[i] = t.words(1 + r.IntN(3))
	}
	return all
}
