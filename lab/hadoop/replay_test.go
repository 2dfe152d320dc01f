package hadoop_test

import (
	"context"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gleaner/lab/hadoop"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/mine"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/program"
	"gleaner/trace/replay"
	"gleaner/trace/replay/hadooprpc"
)

const recordings = "../../../shared/data/traces/hadoop"

// TestPlayedAsRecorded plays a learned program to a real NameNode at a recorded
// scale: calls that the program decides are made as often as recorded, and nothing
// is refused.
func TestPlayedAsRecorded(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to play to a real NameNode; it takes half a minute")
	}
	p := learned(t)
	for _, kind := range p.Types {
		for _, c := range kind.Calls {
			if c.Method == "ClientProtocol.complete" && c.Until == nil {
				t.Errorf("%s of %s is not repeated until the file is complete", c.Name, kind.Name)
			}
		}
	}
	j := jars(t)
	nn, err := hadoop.StartNameNode(t.Context(), j, hadoop.Setting{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer nn.Stop()
	setting, err := grow.Resolve(p, grow.Setting{Scale: 26})
	if err != nil {
		t.Fatal(err)
	}
	result, err := replay.Play(t.Context(), replay.Options{Program: p, Setting: setting, Compress: 20, Patience: 2 * time.Minute, For: 5 * time.Minute,
		Targets: map[string]replay.Executor{"namenode": executor(t, j, nn)}})
	if err != nil {
		t.Fatal(err)
	}
	if result.Refused+result.Failed > 0 || result.Ended != "done" {
		t.Errorf("%d refused, %d without a reply, ended: %s", result.Refused, result.Failed, result.Ended)
	}
	want, got := recorded(t, "n026.jsonl.gz"), map[string]int{}
	for _, c := range result.Calls {
		got[c.Method] += c.Made
	}
	for _, method := range []string{"ClientProtocol.create", "ClientProtocol.addBlock", "ClientProtocol.rename", "ClientProtocol.delete", "ClientProtocol.mkdirs",
		"ClientProtocol.setPermission", "ClientProtocol.setReplication", "ClientProtocol.setErasureCodingPolicy", "ClientProtocol.fsync",
		"DatanodeProtocol.versionRequest", "DatanodeProtocol.registerDatanode"} {
		if want[method] == 0 || got[method] != want[method] {
			t.Errorf("%s: %d recorded, %d played", method, want[method], got[method])
		}
	}
	state, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=FSNamesystemState")
	if err != nil {
		t.Fatal(err)
	}
	files, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=FSNamesystem")
	if err != nil || files["NumFilesUnderConstruction"] != 0.0 {
		t.Errorf("%v files were never completed, %v", files["NumFilesUnderConstruction"], err)
	}
	// What the job leaves behind: three files of its history, and 13 folders.
	if state["NumLiveDataNodes"] != 26.0 || state["NumDeadDataNodes"] != 0.0 || state["BlocksTotal"] != 3.0 || state["FilesTotal"] != 16.0 {
		t.Errorf("the NameNode counts %v live nodes, %v dead, %v blocks, %v files and folders", state["NumLiveDataNodes"], state["NumDeadDataNodes"],
			state["BlocksTotal"], state["FilesTotal"])
	}
}

// TestKilledNameNode kills a NameNode in the middle of a job and starts it again: it asks the
// nodes that are played to register again, which they do, and report their blocks. So it leaves
// its safe mode, and the job ends as it does otherwise.
func TestKilledNameNode(t *testing.T) {
	p, j := learned(t), jars(t)
	data := t.TempDir()
	nn, err := hadoop.StartNameNode(t.Context(), j, hadoop.Setting{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { nn.Stop() }()
	gaps := playThrough(t, p, executor(t, j, nn), func() (*hadoop.Master, error) {
		nn.Kill()
		again, err := hadoop.StartNameNode(t.Context(), j, hadoop.Setting{Data: data, Port: port(t, nn.Address), Web: port(t, strings.TrimPrefix(nn.Web, "http://"))})
		if err == nil {
			nn = again
		}
		return again, err
	})
	if len(gaps) != 1 {
		t.Errorf("gaps: %+v", gaps)
	}
}

// TestNameNodeFailsOver kills a NameNode in the middle of a job, and the one that stands by takes its place: nodes and clients go over
// to it, and the job ends as it does otherwise.
func TestNameNodeFailsOver(t *testing.T) {
	p, j := learned(t), jars(t)
	pair, err := hadoop.StartNameNodes(t.Context(), j, hadoop.Setting{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Stop()
	playThrough(t, p, replay.WithStandbys(executor(t, j, pair.Active), executor(t, j, pair.Standby)), func() (*hadoop.Master, error) {
		pair.Active.Kill()
		return pair.Standby, pair.TakeOver(t.Context())
	})
}

// playThrough plays WordCount on 12 nodes, and has something done once they hold blocks, which ends with a NameNode that serves. That must know all nodes
// and what the job leaves behind. It returns when nobody answered.
func playThrough(t *testing.T, p *program.Program, target replay.Executor, change func() (*hadoop.Master, error)) []replay.Gap {
	t.Helper()
	const nodes = 12
	setting, err := grow.Resolve(p, grow.Setting{Scale: nodes})
	if err != nil {
		t.Fatal(err)
	}
	full, changed := make(chan bool, 1), make(chan error, 1)
	var added atomic.Int32
	record := func(c *trace.Call) {
		if c.Method == "ClientProtocol.addBlock" && c.End > 0 && added.Add(1) == nodes { // blocks that nodes hold
			full <- true
		}
	}
	var nn *hadoop.Master
	go func() {
		<-full
		var err error
		nn, err = change()
		changed <- err
	}()
	result, err := replay.Play(t.Context(), replay.Options{Program: p, Setting: setting, Compress: 20, Patience: 2 * time.Minute, For: 5 * time.Minute, Record: record,
		Targets: map[string]replay.Executor{"namenode": target}})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Calls {
		if c.Skipped+c.Unmet+c.Refused > 0 {
			t.Errorf("%s: %d not made, %d never completed, %d refused: %v", c.Method, c.Skipped, c.Unmet, c.Refused, c.Errors)
		}
	}
	t.Logf("%.1f s, %d calls without a reply; gaps %+v; missing %+v", result.Seconds, result.Failed, result.Gaps, result.Missing)
	registered := 0
	for _, r := range result.Reactions {
		t.Logf("%+v", r)
		registered += r.Begun
	}
	if result.Ended != "done" || registered < nodes {
		t.Errorf("ended: %s; %d nodes registered again", result.Ended, registered)
	}
	state, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=FSNamesystemState")
	if err != nil {
		t.Fatal(err)
	}
	info, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=NameNodeInfo")
	if err != nil || info["Safemode"] != "" {
		t.Errorf("safe mode: %v, %v", info["Safemode"], err)
	}
	if state["NumLiveDataNodes"] != float64(nodes) || state["BlocksTotal"] != 3.0 || state["FilesTotal"] != 16.0 {
		t.Errorf("the NameNode counts %v live nodes, %v blocks, %v files and folders", state["NumLiveDataNodes"], state["BlocksTotal"], state["FilesTotal"])
	}
	return result.Gaps
}

// port is the port of an address.
func port(t *testing.T, address string) int {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Error(err)
	}
	return int(at.Port())
}

// TestKilledResourceManager does the same to a Resource Manager. It has lost the application,
// but not its nodes.
func TestKilledResourceManager(t *testing.T) {
	p := learned(t)
	j := jars(t)
	const nodes = 12
	data := t.TempDir()
	rm, err := hadoop.StartResourceManager(t.Context(), j, hadoop.Setting{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { rm.Stop() }()
	query := url.Values{"descriptors": {j.Descriptors}}
	e, err := hadooprpc.Open(t.Context(), &url.URL{Scheme: "hadoop", Host: rm.Address, RawQuery: query.Encode()})
	if err != nil {
		t.Fatal(err)
	}
	setting, err := grow.Resolve(p, grow.Setting{Scale: nodes})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	full, restarted := make(chan bool, 1), make(chan error, 1)
	var beats atomic.Int32
	record := func(c *trace.Call) {
		if c.Method == "ResourceTracker.nodeHeartbeat" && c.End > 0 && beats.Add(1) == 3*nodes {
			full <- true
		}
	}
	active := func() any {
		is, _ := rm.Metrics(t.Context(), "Hadoop:service=ResourceManager,name=ClusterMetrics")
		return is["NumActiveNMs"]
	}
	go func() {
		defer cancel() // ends the run
		<-full
		rm.Kill()
		again, err := hadoop.StartResourceManager(t.Context(), j, hadoop.Setting{Data: data, Port: port(t, rm.Address), Web: port(t, strings.TrimPrefix(rm.Web, "http://"))})
		if err == nil {
			rm = again
		}
		for i := 0; err == nil && i < 120 && active() != float64(nodes); i++ {
			time.Sleep(time.Second)
		}
		restarted <- err
	}()
	result, err := replay.Play(ctx, replay.Options{Program: p, Setting: setting, Compress: 5, Patience: 5 * time.Minute, For: 10 * time.Minute, Stay: true, Record: record,
		Targets: map[string]replay.Executor{"resourcemanager": e}})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f s, gaps %+v, reactions %+v", result.Seconds, result.Gaps, result.Reactions)
	if len(result.Reactions) != 1 || result.Reactions[0].Begun < nodes || active() != float64(nodes) {
		t.Errorf("%v nodes are active; they reacted: %+v", active(), result.Reactions)
	}
}

// TestContainersAreGranted plays the same program to a real Resource Manager,
// which starts the application master on a node that is played, and grants it
// a container for every map and every reduce.
func TestContainersAreGranted(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to play to a real Resource Manager; it takes a minute")
	}
	p := learned(t)
	j := jars(t)
	rm, err := hadoop.StartResourceManager(t.Context(), j, hadoop.Setting{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer rm.Stop()
	query := url.Values{"descriptors": {j.Descriptors}, "nodes": {"45454"}}
	e, err := hadooprpc.Open(t.Context(), &url.URL{Scheme: "hadoop", Host: rm.Address, RawQuery: query.Encode()})
	if err != nil {
		t.Fatal(err)
	}
	setting, err := grow.Resolve(p, grow.Setting{Scale: 12})
	if err != nil {
		t.Fatal(err)
	}
	result, err := replay.Play(t.Context(), replay.Options{Program: p, Setting: setting, Compress: 5, Patience: 2 * time.Minute, For: 5 * time.Minute,
		Targets: map[string]replay.Executor{"resourcemanager": e}})
	if err != nil {
		t.Fatal(err)
	}
	if result.Refused+result.Failed > 0 || result.Ended != "done" {
		t.Errorf("%d refused, %d without a reply, ended: %s", result.Refused, result.Failed, result.Ended)
	}
	nodes, err := rm.Metrics(t.Context(), "Hadoop:service=ResourceManager,name=ClusterMetrics")
	if err != nil {
		t.Fatal(err)
	}
	queue, err := rm.Metrics(t.Context(), "Hadoop:service=ResourceManager,name=QueueMetrics,q0=root")
	if err != nil {
		t.Fatal(err)
	}
	// An ask that is not met within a beat is replaced by the next; on a slow
	// machine a few may be lost.
	granted, _ := queue["AggregateContainersAllocated"].(float64)
	if nodes["NumActiveNMs"] != 12.0 || nodes["NumLostNMs"] != 0.0 || granted < 10 || granted > 1+12+6 {
		t.Errorf("%v nodes, %v lost, %v containers granted", nodes["NumActiveNMs"], nodes["NumLostNMs"], granted)
	}
}

// learned is the program of the small scales, with the overrides.
func learned(t *testing.T) *program.Program {
	t.Helper()
	logs := corpus.New()
	for _, name := range []string{"n003", "n004", "n006a", "n008", "n012"} {
		run := logs.Begin(name)
		each(t, name+".jsonl.gz", run.Add)
		logs.Learn(run)
	}
	model, err := mine.Learn(t.Context(), logs)
	if err != nil {
		t.Fatal(err)
	}
	overrides, err := mine.ReadOverrides("wordcount.yaml", hadoop.WordCount)
	if err != nil {
		t.Fatal(err)
	}
	if err := overrides.Apply("wordcount.yaml", model.Program); err != nil {
		t.Fatal(err)
	}
	return model.Program
}

// recorded counts the calls of a trace by method.
func recorded(t *testing.T, name string) map[string]int {
	t.Helper()
	out := map[string]int{}
	each(t, name, func(c *trace.Call) { out[c.Method]++ })
	return out
}

func each(t *testing.T, name string, visit func(*trace.Call)) {
	t.Helper()
	in, err := trace.Open(filepath.Join(recordings, name))
	if err != nil {
		t.Skip("no recorded Hadoop traces here")
	}
	visitAll(t, in, visit)
}

// visitAll visits the calls of a recording and closes it.
func visitAll(t *testing.T, in *trace.Reader, visit func(*trace.Call)) {
	t.Helper()
	defer in.Close()
	for {
		c, err := in.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(c)
	}
}
