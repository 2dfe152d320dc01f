package lean

import (
	"bytes"
	"reflect"
	"testing"

	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/frame"
)

// FuzzFrames: any bytes are read or refused, and what was read stays the same when it is
// written and read again.
func FuzzFrames(f *testing.F) {
	call := &trace.Call{Sender: "n1", Method: "beat", Request: []trace.Leaf{{Path: "a[0].b", Kind: trace.Int, Value: "7"}}}
	f.Add(appendRequest(nil, 3, call))
	f.Add(appendReply(nil, 3, &replay.Reply{Status: "NotFound", Message: "no", Leaves: call.Request}))
	f.Add([]byte{0, 0, 0, 1, 0x80})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		var body []byte
		if frame.Read(bytes.NewReader(b), &body) != nil {
			return
		}
		if number, call, err := parseRequest(body); err == nil {
			var again []byte
			if err := frame.Read(bytes.NewReader(appendRequest(nil, number, call)), &again); err != nil {
				t.Fatal(err)
			}
			n, c, err := parseRequest(again)
			if err != nil || n != number || !reflect.DeepEqual(c, call) {
				t.Fatalf("%+v became %+v (%v)", call, c, err)
			}
		}
		if number, reply, err := parseReply(body); err == nil {
			var again []byte
			if err := frame.Read(bytes.NewReader(appendReply(nil, number, &reply)), &again); err != nil {
				t.Fatal(err)
			}
			n, r, err := parseReply(again)
			if err != nil || n != number || !reflect.DeepEqual(r, reply) {
				t.Fatalf("%+v became %+v (%v)", reply, r, err)
			}
		}
	})
}
