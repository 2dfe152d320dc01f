package hadoop_test

import (
	"io"
	"os"
	"slices"
	"testing"

	"gleaner/trace"
	"gleaner/trace/replay/hadooprpc"
)

// Every recorded message of the masters' protocols can be built from its leaves, and
// has the same leaves again.
func TestRecordedMessagesAreKept(t *testing.T) {
	const path = "../../../shared/data/traces/hadoop/n012.jsonl.gz"
	in, err := trace.Open(path)
	if err != nil {
		t.Skip("no recorded Hadoop traces here")
	}
	defer in.Close()
	set, err := os.ReadFile(jars(t).Descriptors)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := hadooprpc.ReadSchema(set)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for {
		c, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if schema.Knows(c.Method) == nil {
			kept(t, schema, c.Method, false, c.Request)
			kept(t, schema, c.Method, true, c.Response)
			seen++
		}
	}
	if seen < 2500 {
		t.Errorf("only %d calls were of the masters' protocols", seen)
	}
}

func kept(t *testing.T, schema *hadooprpc.Schema, method string, answer bool, leaves []trace.Leaf) {
	t.Helper()
	message, err := schema.Encode(method, answer, leaves)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	got, err := schema.Decode(method, answer, message)
	if err != nil || !slices.Equal(got, leaves) {
		t.Fatalf("%s, answer %v:\n%v\nbecame\n%v %v", method, answer, leaves, got, err)
	}
}
