package learn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/input"
)

// Whatever is measured, weights stay finite; and the same seed and measurements
// give the same decisions and the same state.
func TestWeightsStayFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Features: []string{"a", "b"}, TimeOfDay: rapid.Bool().Draw(t, "time of day"), Safety: rapid.Bool().Draw(t, "safety"),
			Gamma: rapid.Float64Range(0, maxGamma).Draw(t, "gamma"), Epsilon: rapid.Float64Range(0, 1).Draw(t, "epsilon"),
			Rate: rapid.Float64Range(minRate, 1).Draw(t, "rate"), Decay: rapid.Float64Range(minDecay, 1).Draw(t, "decay"),
		}
		seed := rapid.Uint64().Draw(t, "seed")
		polls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Observation {
			return Observation{
				At:        midnight.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "at"))),
				State:     []float64{rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")},
				LatencyMS: rapid.Float64().Draw(t, "latency"), Due: rapid.Bool().Draw(t, "due"),
			}
		}), 1, 100).Draw(t, "polls")

		first, decisions := follow(t, cfg, polls, seed)
		second, again := follow(t, cfg, polls, seed)
		if !bytes.Equal(first, second) || !slices.Equal(decisions, again) {
			t.Fatal("the same seed gave another agent")
		}
		back, err := Read("state", first, cfg, rand.New(rand.NewPCG(0, 0)))
		if err != nil {
			t.Fatalf("its own state: %v", err)
		}
		if third, err := back.Marshal(); err != nil || !bytes.Equal(first, third) {
			t.Fatalf("read and written again it differs (%v)", err)
		}
	})
}

func follow(t *rapid.T, cfg Config, polls []Observation, seed uint64) ([]byte, []Decision) {
	a, err := New(cfg, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var out []Decision
	for _, o := range polls {
		out = append(out, a.Poll(o))
		for _, w := range slices.Concat(a.model.wait, a.model.run) {
			if !finite(w) || math.Abs(w) > heaviest {
				t.Fatalf("weights %v, %v", a.model.wait, a.model.run)
			}
		}
	}
	document, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return document, out
}

// After a restart the agent decides as before.
func TestStateIsKept(t *testing.T) {
	a := agent(t, true, 1)
	live(t, a, loaded, 5000, 1)
	document, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read("state", document, a.cfg, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	for load := range 100 {
		state := []float64{50, 50 * float64(load)}
		wait, run := a.Values(midnight, state)
		if w, r := back.Values(midnight, state); w != wait || r != run {
			t.Fatalf("load %d: values %g and %g, before %g and %g", load, w, r, wait, run)
		}
	}
	if back.decisions != a.decisions {
		t.Errorf("%d decisions, before %d", back.decisions, a.decisions)
	}
}

// A fallback outlives a restart, or every restart would undo it.
func TestFallbackIsKept(t *testing.T) {
	cfg := Default([]string{"iops"})
	cfg.Safety, cfg.Epsilon = true, 0
	a, _ := New(cfg, rand.New(rand.NewPCG(1, 0)))
	a.safety.until = midnight.Add(3 * time.Hour)
	document, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read("state", document, cfg, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if d := back.Poll(Observation{At: midnight.Add(time.Hour), State: []float64{1}, Due: true}); d.Why != Thresholds || !d.Run {
		t.Errorf("%+v", d)
	}
}

func TestBadStates(t *testing.T) {
	a := agent(t, false, 1)
	live(t, a, always, 2000, 1)
	document, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	good := string(document)
	weight := fmt.Sprint(a.model.run[0])
	for _, tc := range []struct{ old, new, want string }{
		{`"version": 1`, `"version": 2`, "state: a learning state of version 2; this gleaner reads version 1 (learn: 0 goes on without it)"},
		{`"version": 1`, `"version": "1"`, "state:2: not a learning state"},
		{weight, "NaN", "invalid character 'N'"},
		{weight, "1e999", "cannot unmarshal number 1e999"},
		{weight, "1e300", "a weight is out of range"},
		{`"iops"`, `"riops"`, "it has other features"},
		{`"time_of_day": false`, `"time_of_day": true`, "it has other features"},
		{`"decisions": 2000`, `"decisions": -1`, "decisions is negative"},
		{`"decisions": 2000`, `"decisions": 2000, "mood": 3`, `unknown field "mood"`},
		{`"seen": 2000`, `"seen": -1`, "a scale is out of range"},
		{`"variance": `, `"variance": -`, "a scale is out of range"},
		{weight + ",", "", "the number of scales or weights"},
		{good, "", "state:1: not a learning state: unexpected end of JSON input"},
		{good, "null", "version 0"},
		{good, good + "x", "invalid character 'x' after top-level value"},
	} {
		if !strings.Contains(good, tc.old) {
			t.Fatalf("the state has no %q:\n%s", tc.old, good)
		}
		_, err := Read("state", []byte(strings.Replace(good, tc.old, tc.new, 1)), a.cfg, a.rng)
		if err == nil || !input.Is(err) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q for %q: %v, want %q", tc.new, tc.old, err, tc.want)
		}
	}
}

// The page on the format shows a state, byte for byte.
func TestThePageShowsAState(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/learning.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	a, err := Read("learning.md", []byte(example), Default([]string{"ssd"}), rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if document, err := a.Marshal(); err != nil || string(document) != example {
		t.Errorf("written again it is\n%s (%v)", document, err)
	}
}

func TestBadConfigs(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"gamma":     func(c *Config) { c.Gamma = 1 },
		"epsilon":   func(c *Config) { c.Epsilon = math.NaN() },
		"half-life": func(c *Config) { c.HalfLife = -1 },
		"rate":      func(c *Config) { c.Rate = 0 },
		"decay":     func(c *Config) { c.Decay = 2 },
		"features":  func(c *Config) { c.Features = []string{"cpu", "cpu"} },
	} {
		cfg := Default(Tiering())
		spoil(&cfg)
		if _, err := New(cfg, nil); err == nil || !input.Is(err) || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	cfg := Default([]string{"iops"})
	a, _ := New(cfg, rand.New(rand.NewPCG(1, 0)))
	for i := range 50 {
		a.Poll(Observation{At: midnight.Add(time.Duration(i) * Poll), State: []float64{float64(i)}, LatencyMS: float64(i % 7)})
	}
	document, _ := a.Marshal()
	f.Add(document)
	f.Add([]byte(`{"version": 1}`))
	f.Add([]byte(`{"version": 1, "wait": [NaN]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		a, err := Read("state", document, cfg, rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			if !input.Is(err) {
				t.Fatalf("not an input error: %v", err)
			}
			return
		}
		once, err := a.Marshal()
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		for i := range 20 {
			a.Poll(Observation{At: midnight.Add(time.Duration(i) * Poll), State: []float64{1e9}, LatencyMS: 1e9})
		}
		for _, w := range slices.Concat(a.model.wait, a.model.run) {
			if !finite(w) {
				t.Fatalf("weights %v, %v", a.model.wait, a.model.run)
			}
		}
		back, err := Read("state", once, cfg, rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if twice, _ := back.Marshal(); !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s", once, twice)
		}
	})
}
