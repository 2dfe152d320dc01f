package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gleaner/input"
)

func readAll(t *testing.T, name, text string) ([]*Call, error) {
	t.Helper()
	return NewReader(name, strings.NewReader(text)).ReadAll()
}

const auditEvent = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"a1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/work/pods/web-1?timeout=5s","verb":"patch","user":{"username":"system:kube-controller-manager"},"sourceIPs":["127.0.0.1"],"userAgent":"kcm/v1 (linux/amd64) kubernetes/abc/job-controller","objectRef":{"resource":"pods","subresource":"status","namespace":"work","name":"web-1"},"responseStatus":{"metadata":{},"code":200},"requestObject":{"metadata":{"labels":{"app.kubernetes.io/name":"web"}},"n":[1,2.5,true,null]},"responseObject":{"metadata":{"uid":"u-1"}},"requestReceivedTimestamp":"2026-11-15T03:11:00.821439Z","stageTimestamp":"2026-11-15T03:11:00.825514Z"}`

func TestAuditEvent(t *testing.T) {
	calls, err := readAll(t, "n026.jsonl", auditEvent+"\n")
	if err != nil || len(calls) != 1 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	c := calls[0]
	if c.Scale != 26 || c.Run != "n026" || c.Sender != "system:kube-controller-manager/job-controller" || c.Method != "patch pods/status" || c.Status != "200" {
		t.Errorf("%+v", c)
	}
	for path, want := range map[string]string{"@namespace": "work", "@name": "web-1", "@query.timeout": "5s", `metadata.labels.app\.kubernetes\.io/name`: "web", "n[1]": "2.5", "n[2]": "true"} {
		if got, ok := Get(c.Request, path); !ok || got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestImpersonated: the sender is whom the server took it for, wherever that stands.
func TestImpersonated(t *testing.T) {
	const before, as = `"user":{"username":"system:kube-controller-manager"}`, `"impersonatedUser":{"username":"system:node:n-1","groups":["a"]}`
	for _, both := range []string{before + "," + as, as + "," + before} {
		calls, err := readAll(t, "x", strings.Replace(auditEvent, before, both, 1)+"\n")
		if err != nil || len(calls) != 1 || calls[0].Sender != "system:node:n-1/job-controller" {
			t.Errorf("%v, %v", calls, err)
		}
	}
}

// TestWatchIsOneCall: a watch is logged when it starts and when it ends.
func TestWatchIsOneCall(t *testing.T) {
	begins := strings.Replace(auditEvent, "ResponseComplete", "ResponseStarted", 1)
	calls, err := readAll(t, "x", begins+"\n"+auditEvent+"\n")
	if err != nil || len(calls) != 1 {
		t.Errorf("%d calls, %v", len(calls), err)
	}
}

func TestHadoopLog(t *testing.T) {
	log := `2026-11-15 12:40:21,789 TRACE ipc.ProtobufRpcEngine2: 17: Call -> master/127.0.0.1:8020: mkdirs {src: "/in/_temp" masked { perm: 493 } createParent: true id: 1 id: 2}
2026-11-15 12:40:21,790 INFO something else
2026-11-15 12:40:21,791 from=10.0.0.7 TRACE ipc.ProtobufRpcEngine2: 18: Call -> master/127.0.0.1:8020: getStats {}
2026-11-15 12:40:21,795 TRACE ipc.ProtobufRpcEngine2: 17: Response <- master/127.0.0.1:8020: mkdirs {result: true}
2026-11-15 12:40:21,799 TRACE ipc.ProtobufRpcEngine2: 18: Exception <- master/127.0.0.1:8020: getStats {java.io.IOException}
`
	calls, err := readAll(t, "datanode-3.log", log)
	if err != nil || len(calls) != 2 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	c := calls[0]
	if c.Sender != "datanode-3" || c.Method != "mkdirs" || c.End-c.Start != 6e6 || c.Address != "" || calls[1].Status != "500" || calls[1].Address != "10.0.0.7" {
		t.Errorf("%+v, %+v", c, calls[1])
	}
	for path, want := range map[string]string{"src": "/in/_temp", "masked.perm": "493", "createParent": "true", "id[1]": "2"} {
		if got, _ := Get(c.Request, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestHadoopLogWithinAMillisecond: lines of one millisecond keep their order, and those of a thread
// also where others' come late. A clock that is set back stays so.
func TestHadoopLogWithinAMillisecond(t *testing.T) {
	log := ""
	for _, line := range []string{
		`12:40:21,789 17: Call ->`, `12:40:21,790 17: Response <-`, `12:40:21,790 17: Call ->`, `12:40:21,789 18: Call ->`, `12:40:21,789 17: Response <-`, `12:40:21,791 18: Response <-`,
		`11:40:21,791 17: Call ->`, `11:40:21,793 17: Response <-`,
	} {
		at, rest, _ := strings.Cut(line, " ")
		log += fmt.Sprintf("2026-11-15 %s TRACE ipc.ProtobufRpcEngine2: %s master/127.0.0.1:8020: getStats {}\n", at, rest)
	}
	calls, err := readAll(t, "datanode-3.log", log)
	if err != nil || len(calls) != 4 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	slices.SortFunc(calls, func(a, b *Call) int { return cmp.Compare(a.Start, b.Start) })
	hourBefore, first, other, again := calls[0], calls[1], calls[2], calls[3]
	if hourBefore.End-hourBefore.Start != 2e6 || first.Start-hourBefore.Start < 3599e9 {
		t.Errorf("an hour before: %+v", hourBefore)
	}
	if again.Start <= first.End || again.Start-first.End >= 1e6 || again.End <= again.Start || other.End <= other.Start {
		t.Errorf("in the millisecond of the reply before: %+v, %+v", first, again)
	}
}

// TestRealHadoopLog: lines of a real client: first the output of the Java machine, lines
// at DEBUG, an exception with its stack, a list of two and bytes that are no text; then
// other layouts.
func TestRealHadoopLog(t *testing.T) {
	log := `WARNING: An illegal reflective access operation has occurred
2026-11-15 23:52:26,041 WARN org.apache.hadoop.util.NativeCodeLoader: Unable to load native-hadoop library for your platform
2026-11-15 23:52:28,470 TRACE org.apache.hadoop.ipc.ProtobufRpcEngine2: 1: Call -> /127.0.0.1:8020: createSnapshot {snapshotRoot: "/a" snapshotName: "s1"}
2026-11-15 23:52:28,475 TRACE org.apache.hadoop.ipc.ProtobufRpcEngine2: 1: Exception <- master/127.0.0.1:8020: createSnapshot {org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs.protocol.SnapshotException): Directory is not a snapshottable directory: /a
	at org.apache.hadoop.hdfs.server.namenode.snapshot.SnapshotManager.getSnapshottableRoot(SnapshotManager.java:323)
}
2026-11-15 23:52:28,653 TRACE org.apache.hadoop.ipc.ProtobufRpcEngine2: 1: Call -> master/127.0.0.1:8020: setXAttr {src: "/a/\303\251t\303\251" xAttr { namespace: USER name: "x" value: "\000\377\'\"\\A" } flag: 3}
2026-11-15 23:52:28,661 DEBUG org.apache.hadoop.ipc.ProtobufRpcEngine2: Call: setXAttr took 9ms
2026-11-15 23:52:28,663 TRACE org.apache.hadoop.ipc.ProtobufRpcEngine2: 1: Response <- master/127.0.0.1:8020: setXAttr {}
2026-11-15T23:52:28,670 TRACE [IPC] ipc.ProtobufRpcEngine (ProtobufRpcEngine.java:invoke(214)) - 20: Call -> master/127.0.0.1:8020: addBlock {src: "/a/it\'s" excludeNodes { id { xferPort: 9866 } } excludeNodes { id { xferPort: 9867 } }}
`
	calls, err := readAll(t, "client.log", log)
	if err != nil || len(calls) != 3 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	var got strings.Builder
	for _, c := range calls {
		fmt.Fprintln(&got, c.Target, c.Method, c.Status, messageOf(c.Request))
	}
	want := `master:8020 createSnapshot 500 snapshotRoot=/a snapshotName=s1
master:8020 setXAttr 200 src=/a/été xAttr.namespace=USER xAttr.name=x xAttr.value=base64:AP8nIlxB flag=3
master:8020 addBlock open src=/a/it's excludeNodes[0].id.xferPort=9866 excludeNodes[1].id.xferPort=9867
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func messageOf(leaves []Leaf) string {
	var out []string
	for _, l := range leaves {
		out = append(out, l.Path+"="+l.Value)
	}
	return strings.Join(out, " ")
}

// TestFolder: the logs of all processes are one run; the folder's name has the scale, a
// file's name the sender. A log that was cut off is an error that names it, and the
// others are still read.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "n003")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	call := "2026-11-15 12:40:21,789 TRACE ipc.ProtobufRpcEngine2: 17: Call -> h: beat {n: 1}\n"
	for name, text := range map[string]string{
		"client.log":     call,
		"datanode-0.log": call + call[:len(call)-4],
		"datanode-1.log": call,
		"datanode-1.out": "ulimit -a\n",
		"namenode.log":   "2026-11-15 12:40:20,111 INFO namenode.NameNode: started\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := r.ReadAll()
	if err == nil || !input.Is(err) || !strings.HasSuffix(err.Error(), "datanode-0.log:2: ends in the middle of a value") {
		t.Errorf("a log that was cut off: %v", err)
	}
	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprintf("%s %d %s", c.Run, c.Scale, c.Sender))
	}
	if want := "n003 3 client, n003 3 datanode-0, n003 3 datanode-1"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestCommonRecord: what is written is read back the same.
func TestCommonRecord(t *testing.T) {
	calls, err := readAll(t, "n003", auditEvent)
	if err != nil {
		t.Fatal(err)
	}
	var once, twice bytes.Buffer
	write := func(to *bytes.Buffer, calls []*Call) {
		w := NewWriter(to)
		for _, c := range calls {
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	write(&once, calls)
	again, err := readAll(t, "other", once.String())
	if err != nil {
		t.Fatal(err)
	}
	write(&twice, again)
	if once.String() != twice.String() {
		t.Errorf("%s\n%s", once.String(), twice.String())
	}
}

func TestBadLines(t *testing.T) {
	good := `{"time":1,"sender":"a","method":"m","request":{}}` + "\n"
	for text, want := range map[string]string{
		`{"time":1,"sender":"a","method":"m","requ`:             "f:2: ends in the middle of a value",
		`{"time":1,"sender":"a","response":{"x":1}}`:            "f:2: a reply without its call",
		`{"time":9,"end":8,"sender":"a","method":"m"}`:          "f:2: the clock runs backwards",
		`{"time":9,"sender":"a","method":"m"} x`:                "something follows",
		`{"time":"tomorrow","sender":"a","method":"m"}`:         `f:2: time: "tomorrow" is not a time`,
		`{"time":9,"scale":-1,"sender":"a","method":"m"}`:       "not a positive number",
		`{"time":9,"scale":10000001,"sender":"a","method":"m"}`: "10000001 is above 10000000",
		`hello`: "column 1: expected '{'",
	} {
		calls, err := readAll(t, "f", good+text+"\n")
		if err == nil || !input.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if len(calls) != 1 {
			t.Errorf("%s: %d calls kept, want the one before", text, len(calls))
		}
	}
	if _, err := readAll(t, "f", "hello\n"); err == nil || !input.Is(err) {
		t.Errorf("no trace at all: %v", err)
	}
}

// TestBytesThatAreNoText: other bytes than UTF-8 are replaced, so that output is valid
// JSON.
func TestBytesThatAreNoText(t *testing.T) {
	calls, err := readAll(t, "f", "{\"time\":1,\"sender\":\"a\xff\",\"method\":\"m\"}\n")
	if err != nil || calls[0].Sender != "a\uFFFD" {
		t.Errorf("%+v, %v", calls, err)
	}
}

func TestScaleOf(t *testing.T) {
	for name, want := range map[string]int{"n026.jsonl.gz": 26, "dir/n006a.jsonl": 6, "run-n12.json": 12, "trace.jsonl": 0, "main2.log": 0} {
		if got := ScaleOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestRealTraces reads recordings of real systems, if they are there.
func TestRealTraces(t *testing.T) {
	for path, want := range map[string]int{"hadoop/n003.jsonl.gz": 585, "k8s/n003.jsonl.gz": 896} {
		r, err := Open("../../shared/data/traces/" + path)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) || input.Is(err) {
				t.Skipf("no recorded traces: %v", err)
			}
			t.Fatal(err)
		}
		calls, err := r.ReadAll()
		if err != nil || len(calls) != want {
			t.Errorf("%s: %d calls, want %d (%v)", path, len(calls), want, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(auditEvent + "\n" + auditEvent)
	f.Add(`{"time":1,"sender":"a","method":"m","request":{"a[0].b":"\u00e9\n"},"response":[1,{"x":null}]}`)
	f.Add("2026-11-15 12:40:21,789 TRACE ipc.ProtobufRpcEngine2: 17: Call -> h: m {a { b: \"c\" } d: 1}\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := NewReader("f", strings.NewReader(text))
		var out bytes.Buffer
		w := NewWriter(&out)
		for {
			c, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				if !input.Is(err) {
					t.Fatalf("%v is not the user's mistake", err)
				}
				return
			}
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := NewReader("f", &out).ReadAll(); err != nil && out.Len() > 0 {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	line := strings.Repeat(auditEvent+"\n", 1000)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r := NewReader("f", strings.NewReader(line))
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
