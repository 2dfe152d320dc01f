package search

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

func TestOneSeedGivesOneCorpus(t *testing.T) {
	texts := func(seed uint64) (all []string) {
		c := Corpus{Documents: 50, Words: 500, Length: 20, Seed: seed}
		if err := c.Each(func(body string) error { all = append(all, body); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if a, b := texts(1), texts(1); len(a) != 50 || !slices.Equal(a, b) {
		t.Errorf("%d and %d documents that differ", len(a), len(b))
	}
	if slices.Equal(texts(1), texts(2)) {
		t.Error("two seeds give one corpus")
	}
	for _, body := range texts(1) {
		if n := len(strings.Fields(body)); n < 10 || n > 30 {
			t.Errorf("a document of %d words", n)
		}
	}
}

func TestWordsAreToldApartAndUnevenlyCommon(t *testing.T) {
	seen := map[string]bool{}
	for rank := range uint64(20_000) {
		seen[word(rank)] = true
	}
	if len(seen) != 20_000 {
		t.Errorf("%d spellings of 20000 words", len(seen))
	}
	count := map[string]int{}
	for _, w := range strings.Fields(Usual.text(seeded(1)).words(50_000)) {
		count[w]++
	}
	if first, hundredth := count[word(0)], count[word(100)]; first < 3*hundredth || hundredth == 0 {
		t.Errorf("the first word comes %d times, the hundredth %d times", first, hundredth)
	}
}

func TestLoadFollowsTheCurve(t *testing.T) {
	const length = 100 * time.Second
	rate := func(at time.Duration) float64 {
		if at < length/2 {
			return 50
		}
		return 200
	}
	l := Follow(rate, length, Usual, seeded(1))
	if !slices.IsSorted(l.At) || len(l.At) != len(l.Queries) || l.At[len(l.At)-1] >= length {
		t.Fatal("queries out of order or out of the day")
	}
	half, _ := slices.BinarySearch(l.At, length/2)
	// 2,500 and 10,000 are expected; five standard deviations either way.
	if rest := len(l.At) - half; math.Abs(float64(half)-2500) > 250 || math.Abs(float64(rest)-10_000) > 500 {
		t.Errorf("%d and %d queries", half, rest)
	}
	if again := Follow(rate, length, Usual, seeded(1)); !slices.Equal(again.At, l.At) || !slices.Equal(again.Queries, l.Queries) {
		t.Error("one seed gives two loads")
	}
}

// A service that stalls for half a second delays all queries that are due meanwhile,
// although it has not accepted them: a closed loop would measure one slow query, the
// open loop measures a quarter of all.
func TestAStallShowsInEveryQueryThatFellDue(t *testing.T) {
	const stall = 500 * time.Millisecond
	var door sync.Mutex
	begun := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		door.Lock()
		defer door.Unlock()
		if past := time.Since(begun); past > stall && past < 2*stall {
			time.Sleep(2*stall - past)
		}
	}))
	defer server.Close()
	l := Follow(func(time.Duration) float64 { return 100 }, 4*stall, Usual, seeded(2))
	record, err := l.Play(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	slow := 0
	for _, q := range record {
		if q.Took > stall/4 {
			slow++
		}
	}
	// About 37 fall due in the first three quarters of the stall.
	if slow < 20 || record.Failed() > 0 || record.Percentile(0.99) < float64(stall.Milliseconds())/2 {
		t.Errorf("%d of %d queries took long, %d failed, p99 %.0f ms", slow, len(record), record.Failed(), record.Percentile(0.99))
	}
}

func TestAFailedQueryIsCounted(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	record, err := Load{At: []time.Duration{0, time.Millisecond}, Queries: []string{"a", "b"}}.Play(t.Context(), server.URL)
	if err != nil || record.Failed() != 2 {
		t.Errorf("%v, %v", record, err)
	}
	if _, err := Capacity(t.Context(), server.URL, []string{"a"}, 2, time.Second); err == nil {
		t.Error("a service that never answers has a capacity")
	}
}

func TestPlayEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Load{At: []time.Duration{time.Hour}, Queries: []string{"a"}}).Play(ctx, "http://127.0.0.1:1"); err == nil {
		t.Error("it went on")
	}
}

func TestWindowsAndPercentiles(t *testing.T) {
	var r Record
	for i := range 200 {
		r = append(r, Query{At: time.Duration(i) * time.Second, Took: time.Duration(i%100+1) * time.Millisecond})
	}
	windows := r.Windows(4, 200*time.Second)
	for i, want := range []float64{50, 100, 50, 100} {
		if got := windows[i].Percentile(0.99); len(windows[i]) != 50 || got != want {
			t.Errorf("window %d: %d queries, p99 %v ms, want %v", i, len(windows[i]), got, want)
		}
	}
	if got := r.Percentile(0.5); got != 50 {
		t.Errorf("median %v ms", got)
	}
	if got := (Record{}).Percentile(0.5); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}
