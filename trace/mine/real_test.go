package mine

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/mine/corpus"
)

// TestRecordedSystems mines recordings of real systems at n = 3 to 12 and checks
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
		{"k8s", 21, 0.98, 0.95},
	} {
		t.Run(tc.system, func(t *testing.T) {
			m, report, check := learnRecorded(t, tc.system, func(*trace.Call) {})
			t.Logf("%s: %d types, %d sites, arguments %+v; check: arguments %.4f, sequences %.4f, intervals %.4f, %d calls predicted and %d recorded, counts exact %v; %d ambiguous, %d varying, %d throttled",
				tc.system, len(report.NodeTypes), len(m.sites.All), report.Arguments, check.ArgumentsMatch, check.SequenceMatch, check.Intervals,
				check.CallsPredicted, check.CallsExpected, check.Exact(), len(report.Ambiguous), len(report.Varying), len(report.Throttled))
			if got := len(report.NodeTypes); got != tc.types {
				t.Errorf("%d node types, want %d", got, tc.types)
			}
			if tc.system == "hadoop" {
				knownTruths(t, m)
			} else {
				knownBreaks(t, report)
			}
			if check.ArgumentsMatch < tc.arguments || check.SequenceMatch < tc.sequence || !check.Exact() {
				t.Errorf("arguments %.4f, sequences %.4f, counts exact %v", check.ArgumentsMatch, check.SequenceMatch, check.Exact())
			}
			_, other, otherCheck := learnRecorded(t, tc.system, rename)
			if a, b := figures(report, check), figures(other, otherCheck); a != b {
				t.Errorf("figures changed with the names of methods and fields:\n%s\n%s", a, b)
			}
		})
	}
}

func learnRecorded(t *testing.T, system string, change func(*trace.Call)) (*Model, *Report, *Check) {
	c := corpus.New()
	for _, name := range []string{"n003", "n004", "n006a", "n006b", "n008", "n012"} {
		c.Learn(recorded(t, c, system+"/"+name, change))
	}
	m, err := Learn(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return m, m.Report(), m.Check(recorded(t, c, system+"/n026", change))
}

// knownBreaks: a client that sends nine events of a kind and then patches, up
// to 25, changes its course at 2n > 9, which is found, and at 2n > 25, which no
// recorded scale shows and which is named as ambiguous.
func knownBreaks(t *testing.T, r *Report) {
	for _, method := range []string{"patch events", "create events"} {
		named := 0
		for _, a := range r.Ambiguous {
			if a.Method == method && strings.Contains(a.Why, "between n = 4 and 6") {
				named++
			}
		}
		if named != 2 {
			t.Errorf("%s: %d counts named as ambiguous, want 2", method, named)
		}
	}
}

func recorded(t *testing.T, c *corpus.Corpus, name string, change func(*trace.Call)) *corpus.Recording {
	run := opened(t, c, name, change)
	if run == nil {
		t.Skipf("no recording %s", name)
	}
	return run
}

// opened reads a recording; nil if it is not there.
func opened(t *testing.T, c *corpus.Corpus, name string, change func(*trace.Call)) *corpus.Recording {
	r, err := trace.Open("../../../shared/data/traces/" + name + ".jsonl.gz")
	if input.Is(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := c.Begin(name)
	for {
		call, err := r.Next()
		if err == io.EOF {
			return run
		}
		if err != nil {
			t.Fatal(err)
		}
		change(call)
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
