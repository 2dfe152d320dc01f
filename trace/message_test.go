package trace

import "testing"

func FuzzDocument(f *testing.F) {
	for _, text := range []string{`{"a":{"b.c":[1,2.5,true,"x"]},"d[0]":"e"}`, `[[1],[2,3]]`, `"x"`, `{"":1}`, `{"a":[{"b":"\u0000"}]}`, "{\"\":[{\"\xa8\":\"\"}]}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
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
		known := map[string]bool{}
		for _, l := range once {
			known[string([]rune(l.Path))] = true // JSON is UTF-8: other bytes are written as replacements
		}
		for _, l := range again {
			if !known[l.Path] {
				t.Fatalf("%s has %s, which %s does not", doc, l.Path, text)
			}
		}
	})
}
