package trace

import (
	"testing"
	"unicode/utf8"
)

func FuzzDocument(f *testing.F) {
	for _, text := range []string{`{"a":{"b.c":[1,2.5,true,"x"]},"d[0]":"e"}`, `[[1],[2,3]]`, `"x"`, `{"":1}`, `{"a":[{"b":"\u0000"}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // JSON is UTF-8; what else a recording holds is kept, but cannot be written
		}
		once, err := Flatten(text)
		if err != nil {
			return
		}
		doc, err := Document(once)
		if err != nil {
			return // two members of one name
		}
		again, err := Flatten(string(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		for _, l := range again {
			if _, ok := Get(once, l.Path); !ok {
				t.Fatalf("%s has %s, which %s does not", doc, l.Path, text)
			}
		}
	})
}
