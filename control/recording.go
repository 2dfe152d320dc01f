package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gleaner/cluster"
	"gleaner/input"
)

// A Recording writes events and actions as JSON lines. The last lines are written
// by Flush.
type Recording struct {
	buf *bufio.Writer
	enc *json.Encoder
}

// NewRecording records to w.
func NewRecording(w io.Writer) *Recording {
	buf := bufio.NewWriterSize(w, 1<<16)
	return &Recording{buf, json.NewEncoder(buf)}
}

// Flush writes what is not written yet.
func (r *Recording) Flush() error { return r.buf.Flush() }

// Event writes what happened.
func (r *Recording) Event(ev cluster.Event) error { return r.enc.Encode(ev) }

// Action writes what was decided on it.
func (r *Recording) Action(a cluster.Action) error { return r.enc.Encode(a) }

// A Difference is where the decisions of a replay differ from the recording. A side
// that has no more decisions is empty.
type Difference struct {
	Line     int // of the recording
	Recorded string
	Replayed string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("line %d: recorded %q, replayed %q", d.Line, d.Recorded, d.Replayed)
}

// Replay passes the events of a recording to brain and compares its decisions with
// the recorded ones. It returns the number of events, and the first Difference as
// the error; file is the recording's name in input errors.
func Replay(file string, r io.Reader, brain *Brain) (events int, err error) {
	lines := bufio.NewReaderSize(r, 1<<16)
	var decided []cluster.Action
	keep := func(a cluster.Action) error { decided = append(decided, a); return nil }
	for line := 1; ; line++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) == 0 {
			return events, differs(line, nil, decided)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return events, fmt.Errorf("control: replay %s: %w", file, err)
		}
		var entry struct {
			Event  string `json:"event"`
			Action string `json:"action"`
		}
		if err := json.Unmarshal(text, &entry); err != nil || (entry.Event == "") == (entry.Action == "") {
			return events, input.Linef(file, line, "neither an event nor an action")
		}
		if entry.Action != "" {
			var a cluster.Action
			if err := json.Unmarshal(text, &a); err != nil {
				return events, input.Linef(file, line, "%v", err)
			}
			if err := differs(line, &a, decided); err != nil {
				return events, err
			}
			decided = decided[1:]
			continue
		}
		if err := differs(line, nil, decided); err != nil {
			return events, err
		}
		var ev cluster.Event
		if err := json.Unmarshal(text, &ev); err != nil {
			return events, input.Linef(file, line, "%v", err)
		}
		if err := ev.Check(); err != nil {
			return events, input.Linef(file, line, "%v", err)
		}
		decided = decided[:0]
		events++
		if err := brain.Step(ev, keep); err != nil {
			return events, err
		}
	}
}

func differs(line int, recorded *cluster.Action, decided []cluster.Action) error {
	d := &Difference{Line: line}
	if recorded != nil {
		d.Recorded = recorded.String()
	}
	if len(decided) > 0 {
		d.Replayed = decided[0].String()
	}
	if recorded == nil && len(decided) == 0 || recorded != nil && len(decided) > 0 && recorded.Equal(decided[0]) {
		return nil
	}
	return d
}
