package mine

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/trace"
)

// TestRecordedSystems mines recordings of real systems at n = 3 to 12 and holds
// n = 26 against the result. It takes some seconds, so it runs when asked for.
func TestRecordedSystems(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to mine the recorded systems")
	}
	for _, tc := range []struct {
		system              string
		types               int
		arguments, sequence float64
	}{
		{"hadoop", 8, 0.96, 0.99},
		{"k8s", 21, 0.98, 0.75},
	} {
		t.Run(tc.system, func(t *testing.T) {
			c := NewCorpus()
			for _, name := range []string{"n003", "n004", "n006a", "n006b", "n008", "n012"} {
				c.Learn(recorded(t, c, tc.system+"/"+name))
			}
			m, err := Learn(context.Background(), c)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(m.Report().NodeTypes); got != tc.types {
				t.Errorf("%d node types, want %d", got, tc.types)
			}
			if tc.system == "hadoop" {
				knownTruths(t, m)
			}
			check := m.Check(recorded(t, c, tc.system+"/n026"))
			if check.ArgumentsMatch < tc.arguments || check.SequenceMatch < tc.sequence {
				t.Errorf("arguments %.4f, sequences %.4f", check.ArgumentsMatch, check.SequenceMatch)
			}
		})
	}
}

func recorded(t *testing.T, c *Corpus, name string) *Run {
	r, err := trace.Open("../../../shared/data/traces/" + name + ".jsonl.gz")
	if input.Is(err) {
		t.Skipf("no recordings at hand: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := c.Run(name)
	for {
		call, err := r.Next()
		if err == io.EOF {
			return run
		}
		if err != nil {
			t.Fatal(err)
		}
		run.Add(call)
	}
}

// knownTruths are what is known of the recorded program, and must be in the
// mined one.
func knownTruths(t *testing.T, m *Model) {
	text, err := m.Program.Write()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"nodes: floor(n/2)",                     // reducers
		"nodes: min(10, n)",                     // nodes that report a block of job.jar
		"reply: result\n          is: \"true\"", // complete, until
		"src: /user/hadoop/in/part-{node:05}",   // what a map task reads
		`node_status.response_id: ={reply "ResourceTracker.nodeHeartbeat#1" "response_id"`, // chained
		"- call: DatanodeProtocol.sendHeartbeat#1\n        every: 30",                      // real time
		`fileId: ={reply "ClientProtocol.create#1" "fs.fileId"}`,
		`context.leaseId: ={reply "DatanodeProtocol.sendHeartbeat#1" "fullBlockReportLeaseId"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the program does not say %s", want)
		}
	}
}
