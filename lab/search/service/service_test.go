package service

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gleaner/lab/search"
)

// TestMain lets this program be its own service.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "lab" && os.Args[2] == "search" {
		if err := Serve(context.Background(), os.Args[3], "127.0.0.1:0", os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The service finds a word, spelt right or with one mistake, in exactly the documents
// that contain it.
func TestTheServiceAnswers(t *testing.T) {
	c := search.Corpus{Documents: 200, Words: 2000, Length: 20, Seed: 1}
	service := start(t, c)
	rare := aRareWord(c)
	holds, n := map[int]bool{}, 0
	_ = c.Each(func(body string) error {
		holds[n] = slices.ContainsFunc(strings.Fields(body), func(w string) bool { return nearly(w, rare) })
		n++
		return nil
	})
	want := uint64(0)
	for _, held := range holds {
		if held {
			want++
		}
	}
	response, err := http.Get(service.URL + "/?q=" + url.QueryEscape(rare))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer Answer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Total != want || want == 0 || len(answer.Hits) != int(min(want, best)) {
		t.Errorf("%+v, but %d documents hold %q", answer, want, rare)
	}
}

// nearly is the dumb twin of fuzziness 1: one letter changed, added or left out.
func nearly(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	for i := range b {
		if i < len(a) && a[i] == b[i] {
			continue
		}
		if len(a) == len(b) {
			return a[i+1:] == b[i+1:]
		}
		return a[i:] == b[i+1:]
	}
	return false
}

func start(t *testing.T, c search.Corpus) *search.Service {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "index")
	if err := Build(dir, c); err != nil {
		t.Fatal(err)
	}
	service, err := search.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Stop(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return service
}

func TestAServiceWithoutAnIndexSaysSo(t *testing.T) {
	if _, err := search.Start(t.Context(), filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("it started")
	}
}

// aRareWord is in few documents, and the same each time.
func aRareWord(c search.Corpus) string {
	in := map[string]int{}
	_ = c.Each(func(body string) error {
		for _, w := range strings.Fields(body) {
			in[w]++
		}
		return nil
	})
	var rare []string
	for w, n := range in {
		if n == 3 {
			rare = append(rare, w)
		}
	}
	return slices.Min(rare)
}
