package crew

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gleaner/input"
	"gleaner/trace/replay"
	"gleaner/trace/replay/frame"
	"gleaner/trace/replay/judge"
)

// version is that of the messages.
const version = 1

// A hello is what a machine says first on a connection.
type hello struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Carries uint64 `json:"carries,omitempty"` // the number of the order for which this connection carries calls
}

// An order is what a host says. One of its fields is set.
type order struct {
	Play  *replay.Order `json:"play,omitempty"`
	Carry *carry        `json:"carry,omitempty"`
	Clock bool          `json:"clock,omitempty"` // what time is it there?
	Stop  bool          `json:"stop,omitempty"`
	Over  bool          `json:"over,omitempty"`
	Why   string        `json:"why,omitempty"` // it is over; empty if all was done
}

// carry says to hold connections to targets, over a new connection that says this number.
type carry struct {
	Number  uint64   `json:"number"`
	Targets []string `json:"targets"`
}

// An answer is what a machine says to an order.
type answer struct {
	Now    int64           `json:"now,omitempty"` // to Clock, in nanoseconds
	Result json.RawMessage `json:"result,omitempty"`
	Share  *Share          `json:"share,omitempty"`
	Error  string          `json:"error,omitempty"`
	Input  bool            `json:"input,omitempty"` // the error is about what the user asked for
}

// A Share is what a machine used for its part of a run.
type Share struct {
	CPU    judge.CPU `json:"cpu"`
	Memory int64     `json:"memory_bytes"`
}

func failed(err error) answer { return answer{Error: err.Error(), Input: input.Is(err)} }

// err is what the machine of that name could not do.
func (a answer) err(name string) error {
	switch {
	case a.Error == "":
		return nil
	case a.Input:
		return input.Errorf("", "machine %s: %s", name, a.Error)
	}
	return fmt.Errorf("machine %s: %s", name, a.Error)
}

// write sends a message in one piece.
func write(to io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = to.Write(frame.Append(nil, func(b []byte) []byte { return append(b, body...) }))
	return err
}

// read reads a message.
func read(from io.Reader, message any) error {
	var body []byte
	if err := frame.Read(from, &body); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields() // what is not known would be left out
	if err := dec.Decode(message); err != nil {
		return fmt.Errorf("it is perhaps of another version of gleaner: %w", err)
	}
	return nil
}

func (h hello) check() error {
	if h.Version != version {
		return errors.New("it is of another version of gleaner")
	}
	return nil
}
