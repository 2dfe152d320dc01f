package learn

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gleaner/input"
)

// Version is that of the state's format (docs/formats/learning.md).
const Version = 1

// heaviest is far above any weight that learning can reach.
const heaviest = 1e9

// A state is an Agent as a document. The last poll is not part of it: nobody knows
// what happened between it and the next start.
type state struct {
	Version   int         `json:"version"`
	Features  []string    `json:"features"`
	TimeOfDay bool        `json:"time_of_day"`
	Decisions int         `json:"decisions"`
	Scales    []scale     `json:"scales"`
	Reward    scale       `json:"reward"`
	Wait      []float64   `json:"wait"`
	Run       []float64   `json:"run"`
	Safety    safetyState `json:"safety"`
}

type safetyState struct {
	Until    time.Time `json:"until"`
	Learned  []float64 `json:"learned"`
	Controls []float64 `json:"thresholds"`
}

// Marshal returns what the agent has learned, to be kept by the caller.
func (a *Agent) Marshal() ([]byte, error) {
	m, s := &a.model, &a.safety
	out, err := json.MarshalIndent(state{Version, a.cfg.Features, a.cfg.TimeOfDay, a.decisions, m.features, m.reward, m.wait, m.run,
		safetyState{s.until.UTC(), s.learned, s.controls}}, "", "  ")
	return append(out, '\n'), err
}

// Read returns the agent that Marshal was called on. The config must have the same
// features. where names the document in errors.
func Read(where string, document []byte, cfg Config, rng *rand.Rand) (*Agent, error) {
	a, err := New(cfg, rng)
	if err != nil {
		return nil, err
	}
	var version struct{ Version int }
	if err := json.Unmarshal(document, &version); err != nil {
		return nil, asInput(where, document, err)
	}
	if version.Version != Version {
		return nil, input.Errorf(where, "a learning state of version %d; this gleaner reads version %d (learn: 0 goes on without it)", version.Version, Version)
	}
	var s state
	d := json.NewDecoder(bytes.NewReader(document))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, asInput(where, document, err)
	}
	if wrong := s.wrong(cfg, len(a.model.features)); wrong != "" {
		return nil, input.Errorf(where, "not a learning state: %s", wrong)
	}
	a.decisions = s.Decisions
	m := &a.model
	m.features, m.reward, m.wait, m.run = s.Scales, s.Reward, s.Wait, s.Run
	a.safety = safety{until: s.Safety.Until, learned: s.Safety.Learned, controls: s.Safety.Controls}
	return a, nil
}

// wrong says what no agent with n features could have written.
func (s *state) wrong(cfg Config, n int) string {
	switch {
	case !slices.Equal(s.Features, cfg.Features) || s.TimeOfDay != cfg.TimeOfDay:
		return "it has other features"
	case s.Decisions < 0:
		return "decisions is negative"
	case len(s.Scales) != n || len(s.Wait) != n+1 || len(s.Run) != n+1:
		return "the number of scales or weights is not that of the features"
	case slices.ContainsFunc(s.Scales, impossible) || impossible(s.Reward):
		return "a scale is out of range"
	case slices.ContainsFunc(slices.Concat(s.Wait, s.Run), beyond(heaviest)):
		return "a weight is out of range"
	case len(s.Safety.Learned) > window || len(s.Safety.Controls) > window:
		return "safety has too many periods"
	case slices.ContainsFunc(slices.Concat(s.Safety.Learned, s.Safety.Controls), beyond(largest)):
		return "a latency is out of range"
	}
	return ""
}

func impossible(s scale) bool {
	return beyond(largest)(s.Mean) || s.Variance < 0 || s.Variance > 4*largest*largest || s.Seen < 0 || s.Seen > memory
}

func beyond(most float64) func(float64) bool {
	return func(v float64) bool { return math.Abs(v) > most }
}

// asInput names the line of a mistake in the JSON.
func asInput(where string, document []byte, err error) error {
	at := int64(len(document))
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at = kind.Offset
	case errors.Is(err, io.ErrUnexpectedEOF):
	default: // an unknown field, whose place is not told
		return input.Errorf(where, "not a learning state: %v", err)
	}
	line := 1 + bytes.Count(document[:min(at, int64(len(document)))], []byte("\n"))
	return input.Linef(where, line, "not a learning state: %v", err)
}
