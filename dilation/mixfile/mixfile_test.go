package mixfile

import (
	"strings"
	"testing"
	"time"

	"gleaner/input"
)

const good = `cores: 2
jobs:
  - name: sort
    load: {cpu: 0.6, io: 0.3}
    alone: 90s
    copies: 2
  - {name: backup, profile: backup.json, start: 12.5}
`

func TestRead(t *testing.T) {
	m, err := Read("mix.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Jobs) != 3 || m.Machine[0] != 2 || m.Machine[1] != 1 || m.Jobs[1].Load[1] != 0.3 || m.Jobs[1].Alone != 90*time.Second ||
		m.Jobs[2].Profile != "backup.json" || m.Jobs[2].Start != 12500*time.Millisecond || m.Jobs[2].Line != 7 {
		t.Errorf("got %+v", m)
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "mix.yaml: an empty file",
		"jobs: [":                            "mix.yaml:1: not YAML",
		"jobs: [a]\n---\njobs: [b]":          "mix.yaml:2: a second document",
		"- a":                                "mix.yaml:1: the mix must be",
		"cores: 2":                           "mix.yaml:1: the mix has no jobs",
		"jobs: []":                           "mix.yaml:1: jobs must be a list",
		"cores: 0\njobs: [a]":                "mix.yaml:1: cores is 0, not between 1",
		"jobs:\n- name: a":                   `mix.yaml:2: the job "a" must have either`,
		"jobs:\n- name: a\n  load: {cpu: 1}": `mix.yaml:2: the job "a" does not say`,
		"jobs:\n- name: a\n  load: {gpu: 1}\n  alone: 1s":             `mix.yaml:3: load has no field "gpu"`,
		"jobs:\n- name: a\n  load: {cpu: 0.7, io: 0.7}\n  alone: 1s":  "mix.yaml:3: the loading vector's shares add up",
		"jobs:\n- name: a\n  load: {cpu: x}\n  alone: 1s":             `mix.yaml:3: cpu is "x"`,
		"jobs:\n- name: a\n  load: {cpu: .nan}\n  alone: 1s":          `mix.yaml:3: cpu is ".nan"`,
		"jobs:\n- name: a\n  load: {cpu: 1}\n  alone: -1s":            "mix.yaml:4: alone is -1s",
		"jobs:\n- name: a\n  load: {cpu: 1}\n  alone: soon":           `mix.yaml:4: alone is "soon"`,
		"jobs:\n- name: a\n  load: {cpu: 1}\n  alone: 0":              "mix.yaml:4: alone must be more",
		"jobs:\n- name: a\n  load: {cpu: 1}\n  alone: 1s\n  nice: 3":  `mix.yaml:5: the job has no field "nice"`,
		"jobs:\n- name: a\n  load: {cpu: 1}\n  alone: 1s\n  alone: 2": `mix.yaml:5: the job has the field "alone" twice`,
	} {
		_, err := Read("mix.yaml", []byte(text))
		if !input.Is(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(good)
	f.Add("jobs:\n- name: &a a\n  load: {cpu: 1e-3}\n  alone: 1e9\n- *a")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Read("mix.yaml", []byte(text))
		if err != nil {
			if !input.Is(err) {
				t.Fatalf("%v is not the user's mistake", err)
			}
			return
		}
		for _, j := range m.Jobs {
			if j.Profile == "" && (m.Machine.Check(j.Load) != nil || j.Alone <= 0) || j.Start < 0 || j.Line < 1 {
				t.Fatalf("%+v", j)
			}
		}
	})
}
