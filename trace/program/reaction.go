package program

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gleaner/trace"
)

// A Reaction is what a node does when a reply asks it to: to register again, because the
// target does not know it any more; to begin a new session, because its own has expired;
// to ask once more, because the target cannot answer yet.
type Reaction struct {
	To   []string `yaml:"to,flow"` // the methods whose replies are heeded
	Heed `yaml:",inline"`
}

// A Heed is which replies are heeded, and what is done then.
type Heed struct {
	// Reply is a leaf of the reply, in any element of a list where its index is [*], and Is
	// the value that it must have; without a value, it must be missing.
	Reply string `yaml:"reply,omitempty"`
	Is    string `yaml:"is,omitempty"`
	// Status is that of a refusal, and Reason the beginning of its message.
	Status string `yaml:"status,omitempty"`
	Reason string `yaml:"reason,omitempty"`
	// Wait is the time before the first of the calls, or before the call is made again.
	Wait  Interval `yaml:"wait,omitempty"`
	Calls []Redo   `yaml:"calls,omitempty"` // that the node makes then, in this order
	Again bool     `yaml:"again,omitempty"` // the call that got the reply is made again
}

// A Redo is a call that a node makes again in a reaction.
type Redo struct {
	Call string   `yaml:"call"`           // by name
	Wait Interval `yaml:"wait,omitempty"` // after the call before
	// All: every such call that the node has made before, with the arguments it had then.
	All bool `yaml:"all,omitempty"`
}

// When says which replies are heeded.
func (r *Heed) When() string {
	switch {
	case r.Status != "" && r.Reason != "":
		return fmt.Sprintf("refused with %s %s", r.Status, r.Reason)
	case r.Status != "":
		return "refused with " + r.Status
	case r.Is == "":
		return r.Reply + " is missing"
	}
	return fmt.Sprintf("%s is %s", r.Reply, r.Is)
}

// Heeds reports whether a reply is one that the reaction is to.
func (r *Heed) Heeds(status, message string, leaves []trace.Leaf) bool {
	if r.Status != "" {
		return status == r.Status && strings.HasPrefix(message, r.Reason)
	}
	if trace.Refused(status) {
		return false
	}
	found := slices.ContainsFunc(leaves, func(l trace.Leaf) bool { return Matches(l.Path, r.Reply) && (r.Is == "" || l.Value == r.Is) })
	return found == (r.Is != "")
}

// Matches reports whether a path is the one of a pattern, in which [*] is any index.
func Matches(path, pattern string) bool {
	for {
		before, after, any := strings.Cut(pattern, "[*]")
		if !any {
			return path == pattern
		}
		rest, ok := strings.CutPrefix(path, before+"[")
		digits := strings.IndexByte(rest, ']')
		if !ok || digits < 0 {
			return false
		}
		path, pattern = rest[digits+1:], after
	}
}

// check finds errors in a reaction of a type.
func (r *Reaction) check(t *NodeType) error {
	switch {
	case len(r.To) == 0:
		return errors.New("a reaction needs a method whose replies it is to")
	case (r.Reply == "") == (r.Status == ""):
		return errors.New("a reaction is to a leaf of a reply, or to the status of a refusal")
	case r.Status == "" && r.Reason != "" || r.Reply == "" && r.Is != "":
		return errors.New("a reason belongs to a status, and a value to a leaf of a reply")
	case r.Status != "" && !trace.Refused(r.Status):
		return fmt.Errorf("a reaction to the status %q: that is no refusal", r.Status)
	case len(r.Calls) == 0 && !r.Again:
		return errors.New("a reaction makes calls, or makes a call again")
	}
	for _, method := range r.To {
		if !slices.ContainsFunc(t.Calls, func(c Call) bool { return c.Method == method }) {
			return fmt.Errorf("a reaction to replies of %q, which this type does not call", method)
		}
	}
	if err := known(r.Wait.Formula, N); err != nil {
		return at(err, "wait")
	}
	for i, c := range r.Calls {
		site := slices.IndexFunc(t.Calls, func(of Call) bool { return of.Name == c.Call })
		switch {
		case site < 0:
			return at(fmt.Errorf("a reaction makes the call %q, which this type does not have", c.Call), "calls", i)
		case strings.HasSuffix(t.Calls[site].Method, trace.Push):
			return at(fmt.Errorf("a reaction makes the call %q, which is a push", c.Call), "calls", i)
		}
		if err := known(c.Wait.Formula, N); err != nil {
			return at(err, "calls", i, "wait")
		}
	}
	return nil
}
