package hadooprpc

import (
	"fmt"
	"testing"

	"gleaner/trace"
)

// TestComplete: a call as Hadoop's own log has it gets its protocol and its lists; one that
// does not fit the descriptors stays as it is.
func TestComplete(t *testing.T) {
	for _, story := range []struct{ method, path, want string }{
		{"echo", "flag", "DatanodeProtocol.echo flag"},
		{"echo", "inner.id", "DatanodeProtocol.echo inner[0].id"},
		{"echo", "inner.words", "DatanodeProtocol.echo inner[0].words[0]"},
		{"echo", "inner[1].words", "DatanodeProtocol.echo inner[1].words[0]"},
		{"DatanodeProtocol.echo", "inner.id", "DatanodeProtocol.echo inner[0].id"},
		{"echo", "innards.id", "echo innards.id"},
		{"echo", "flag.id", "echo flag.id"},
		{"other", "inner.id", "other inner.id"},
	} {
		c := &trace.Call{Method: story.method, Request: []trace.Leaf{{Path: story.path}}, Response: []trace.Leaf{{Path: "inner.words"}}}
		toy(t).Complete(c)
		if got := fmt.Sprint(c.Method, " ", c.Request[0].Path); got != story.want {
			t.Errorf("%s %s: %s, want %s", story.method, story.path, got, story.want)
		}
		if known := c.Method == "DatanodeProtocol.echo"; known != (c.Response[0].Path == "inner[0].words[0]") {
			t.Errorf("%s %s: the reply has %s", story.method, story.path, c.Response[0].Path)
		}
	}
}
