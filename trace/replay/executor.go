// Package replay plays a program against a real target at any scale
// (PatternMiner §III-C).
//
// What follows from the program and the scale is in a plan (room plan). A player stands
// for one node: it interprets its type's steps, keeps the replies that later arguments
// come from (room memory), and hands each call to an executor. A controller starts
// players by the program's start rules. Calls are made when they are due, whether or not
// the target keeps up; how late they were is part of the result, and what it means is
// judged in room judge.
package replay

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"gleaner/trace"
)

// An Executor speaks one protocol to one target.
type Executor interface {
	// Dial opens a connection for a node. Who the node is matters to protocols
	// that log in or bind to its address.
	Dial(context.Context, Identity) (Conn, error)
}

// An Identity is who a connection speaks for.
type Identity struct {
	Sender  string // the node's name
	Address string // where it calls from, if the program says so
	Target  string // the role it calls: one connection a role
}

// A Conn makes calls one after another unless its executor says that it may be
// shared.
type Conn interface {
	// Call makes one call: call.Method and call.Request are set. The reply's
	// leaves have the paths and kinds that a recording of the same call has, and
	// the same status. An error means that no reply came: the target
	// refused the connection, broke it, or did not answer in time; ErrUnsendable, that
	// nothing was sent. A connection
	// that fails so is closed and dialled anew, unless it is Multiplexed. Close
	// may be called during a call, and ends it. A Conn that knows more exactly than
	// its caller when the call was sent and answered sets call.Start and End.
	Call(context.Context, *trace.Call) (Reply, error)
	Close() error
}

// ErrUnsendable is wrapped by the error of a call whose arguments do not fit the target's
// message: a word where a number must stand.
var ErrUnsendable = errors.New("it does not fit the target's message")

// A Reply is a reply of the target.
type Reply struct {
	Leaves []trace.Leaf
	// Decode makes the leaves, which is put off until somebody reads them; nil if they are there.
	Decode  func() []trace.Leaf
	Status  string // as recorded: empty, "OK" or a number from 200 to 299 is success
	Message string // the target's reason for a refusal
}

// Read decodes the leaves, if that was put off.
func (r *Reply) Read() {
	if r.Decode != nil {
		r.Leaves, r.Decode = r.Decode(), nil
	}
}

// refused reports whether a reply is a refusal.
func (r *Reply) refused() bool { return trace.Refused(r.Status) }

// overloaded reports whether a refusal is no judgement on the request: the target had no
// room for it. Hadoop says so by the class of its exception.
func (r *Reply) overloaded() bool {
	switch r.Status {
	case "ResourceExhausted", "429", "502", "503", "504":
		return true
	}
	class, _, _ := strings.Cut(r.Message, ":")
	return strings.HasSuffix(class, ".RetriableException") || strings.HasSuffix(class, ".StandbyException")
}

// An Opener makes an executor for a target, as the user names it:
// "lean://127.0.0.1:7000". Options of the protocol are in the query:
// "grpc://host:port?descriptors=FILE". It fails if the target cannot be reached.
type Opener func(ctx context.Context, at *url.URL) (Executor, error)
