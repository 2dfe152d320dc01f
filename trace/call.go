package trace

import "strings"

// A Call is one remote procedure call as its sender saw it (PatternMiner, Table I).
type Call struct {
	Run   string // the experiment; usually the file's name
	Scale int    // how large the experiment was; 0 if not recorded
	ID    string // unique in its run; empty if not recorded
	// Parent is the ID of the call that triggered this one; empty if not recorded.
	Parent string

	Start, End int64 // Unix nanoseconds at the sender; End is 0 without a reply

	Sender   string // the node, process or thread that called; a name, nothing more
	Address  string // where the sender called from, if recorded
	Target   string // the role or service called
	Method   string
	Request  []Leaf
	Response []Leaf
	Status   string // code of the reply; empty if not recorded
}

// MaxScale is the largest scale, beyond any cluster in use.
const MaxScale = 10_000_000

// Push is the end of the method of a push: a message that the server sent on a stream
// without a request. Its parent is the last request on the stream.
const Push = "#push"

// A Leaf is one typed value of a message with the path that leads to it:
// "ask[2].capability.memory".
type Leaf struct {
	Path  string
	Kind  Kind
	Value string // as JSON prints it, strings without their quotes
}

// Kind is the type of a leaf's value.
type Kind uint8

// The kinds a message can hold.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
)

var kindNames = [...]string{"null", "bool", "int", "float", "string"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Get returns the value of the leaf at path.
func Get(leaves []Leaf, path string) (string, bool) {
	for _, l := range leaves {
		if l.Path == path {
			return l.Value, true
		}
	}
	return "", false
}

// clone copies a call, so that it does not refer to the line it was read from.
func (c *Call) clone() *Call {
	out := *c
	out.Request = cloneLeaves(c.Request)
	out.Response = cloneLeaves(c.Response)
	for _, s := range []*string{&out.Run, &out.ID, &out.Parent, &out.Sender, &out.Address, &out.Target, &out.Method, &out.Status} {
		*s = strings.Clone(*s)
	}
	return &out
}

func cloneLeaves(in []Leaf) []Leaf {
	out := make([]Leaf, len(in))
	for i, l := range in {
		out[i] = Leaf{Path: l.Path, Kind: l.Kind, Value: strings.Clone(l.Value)}
	}
	return out
}

// Refused reports whether a status is that of a refusal, by its gRPC code or its HTTP
// status (which recordings of Hadoop have too).
func Refused(status string) bool {
	return status != "" && status != "OK" && !(len(status) == 3 && status[0] == '2')
}

// NotNow reports whether a status may be that of a target that cannot answer now, and is no
// judgement on the request. A Hadoop server has only 500 for all refusals.
func NotNow(status string) bool {
	switch status {
	case "Unavailable", "ResourceExhausted", "Aborted", "FailedPrecondition", "Internal", "Unknown", "429", "500", "502", "503", "504":
		return true
	}
	return false
}
