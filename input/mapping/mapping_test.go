package mapping

import (
	"bytes"
	"testing"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
)

// Errors of the YAML library are reported without Go's words.

func TestMistake(t *testing.T) {
	for text, want := range map[string]string{
		"server,cpu":                   `f.yaml:1: "server,cpu" stands where a list of fields with values belongs`,
		"\nname: [1, 2]":               "f.yaml:2: a list stands where a text belongs",
		"count: many":                  `f.yaml:1: "many" stands where a whole number belongs`,
		"share: {a: 1}":                "f.yaml:1: a list of fields with values stands where a number belongs",
		"names: none":                  `f.yaml:1: "none" stands where a list belongs`,
		"sure: perhaps":                `f.yaml:1: "perhaps" stands where true or false belongs`,
		"count: 1\nnmae: x\nsure: 1.5": `f.yaml:2: no field "nmae" is known here`,
		"name: 'x":                     "f.yaml: not YAML: found unexpected end of stream",
	} {
		var v struct {
			Name  string   `yaml:"name"`
			Names []string `yaml:"names"`
			Count int      `yaml:"count"`
			Share float64  `yaml:"share"`
			Sure  bool     `yaml:"sure"`
		}
		d := yaml.NewDecoder(bytes.NewReader([]byte(text)))
		d.KnownFields(true)
		err := d.Decode(&v)
		if err == nil {
			t.Errorf("%q is no mistake", text)
			continue
		}
		if got := Mistake("f.yaml", err); !input.Is(got) || got.Error() != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}
