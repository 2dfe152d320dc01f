package hadoop_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/lab/hadoop"
	"gleaner/lab/maven"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/mine"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/program"
	"gleaner/trace/replay"
)

// Programs are learned at these scales and played at twice the largest.
var learnedScales = []int{3, 5, 8, 12}

const playedScale = 24

// TestProgramsPlayed records programs of Hadoop's with its own logs, learns them at small
// scales, and plays them at twice the largest to a real NameNode: calls that the program
// decides are made as often as recorded there, none is refused, and the NameNode has as many
// files and blocks as the recorded one had. They are recorded one after another: what is learned
// from threads that a busy machine holds up is not always their order.
func TestProgramsPlayed(t *testing.T) {
	j := jars(t)
	lib := programJars(t)
	for i, name := range []string{"nnbench", "terasort", "dfsio"} {
		t.Run(name, func(t *testing.T) {
			folder, left := record(t, lib, name, 18020+20*i)
			played(t, j, name, folder, left)
		})
	}
}

// programJars fetches the jars of the programs, once.
func programJars(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip("no Java compiler here; on Debian: apt-get install openjdk-17-jdk-headless")
	}
	cache, err := maven.Cache()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "hadoop-programs-"+hadoop.Version)
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return filepath.Join(dir, "lib")
	}
	pom, err := os.ReadFile("testdata/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	if err := maven.Fetch(t.Context(), pom, filepath.Join(dir, "lib"), nil); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "lib")
}

// A namespace is what a NameNode counts.
type namespace struct{ files, blocks int }

// record runs a program at all scales. It returns the folder of the recordings and what the
// program leaves behind at the scale that is played.
func record(t *testing.T, lib, program string, port int) (string, namespace) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	for _, name := range []string{"webapps/hdfs", "webapps/datanode", "webapps/static"} {
		if err := os.MkdirAll(filepath.Join(conf, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	source, err := filepath.Abs("testdata/Record.java")
	if err != nil {
		t.Fatal(err)
	}
	traces := filepath.Join(dir, "traces")
	args := []string{"-Xmx1500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Djava.net.preferIPv4Stack=true",
		"--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", conf + ":" + filepath.Join(lib, "*"), source, program, strconv.Itoa(port), traces}
	for _, n := range append(slices.Clone(learnedScales), playedScale) {
		args = append(args, strconv.Itoa(n))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HADOOP_USER_NAME=hadoop")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s could not be recorded: %v\n%s", program, err, out[max(0, len(out)-4000):])
	}
	var left namespace
	for line := range strings.Lines(string(out)) {
		var n int
		if k, _ := fmt.Sscanf(line, "%d nodes: %d files and folders, %d blocks", &n, &left.files, &left.blocks); k == 3 && n == playedScale {
			return traces, left
		}
	}
	t.Fatalf("%s says nothing of what it left:\n%s", program, out)
	return "", left
}

// played learns a program and plays it.
func played(t *testing.T, j hadoop.Jars, name, traces string, left namespace) {
	t.Helper()
	p := learnedFrom(t, j, name, traces)
	defer func() {
		if t.Failed() {
			t.Log("what was learned:\n" + p.Listing())
		}
	}()
	nn, err := hadoop.StartNameNode(t.Context(), j, hadoop.Setting{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer nn.Stop()
	setting, err := grow.Resolve(p, grow.Setting{Scale: playedScale})
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]replay.Executor{}
	for _, kind := range p.Types {
		for _, c := range kind.Calls {
			targets[c.Target] = executor(t, j, nn)
		}
	}
	result, err := replay.Play(t.Context(), replay.Options{Program: p, Setting: setting, Compress: 5, Patience: time.Minute, For: 3 * time.Minute, Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]int{}, map[string]int{}
	eachCall(t, j, filepath.Join(traces, fmt.Sprintf("n%03d", playedScale)), func(c *trace.Call) { want[c.Method]++ })
	for _, c := range result.Calls {
		got[c.Method] += c.Made
		if c.Skipped+c.Unmet+c.Refused > 0 {
			t.Errorf("%s: %d not made, %d never completed, %d refused: %v", c.Method, c.Skipped, c.Unmet, c.Refused, c.Errors)
		}
	}
	if result.Failed > 0 || result.Ended != "done" {
		t.Errorf("%d without a reply, ended: %s", result.Failed, result.Ended)
	}
	for _, method := range slices.Sorted(maps.Keys(want)) {
		t.Logf("%s: %d recorded, %d played", method, want[method], got[method])
		if !slices.Contains(undecided, method) && got[method] != want[method] {
			t.Errorf("%s: %d recorded, %d played", method, want[method], got[method])
		}
	}
	state, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=FSNamesystemState")
	if err != nil {
		t.Fatal(err)
	}
	files, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=FSNamesystem")
	if err != nil || files["NumFilesUnderConstruction"] != 0.0 || files["CorruptBlocks"] != 0.0 {
		t.Errorf("%v files were never completed, %v blocks are corrupt, %v", files["NumFilesUnderConstruction"], files["CorruptBlocks"], err)
	}
	t.Logf("the NameNode counts %v files and folders and %v blocks; recorded %+v", state["FilesTotal"], state["BlocksTotal"], left)
	if state["NumLiveDataNodes"] != float64(playedScale) || state["FilesTotal"] != float64(left.files) || state["BlocksTotal"] != float64(left.blocks) {
		t.Errorf("the NameNode counts %v live nodes, %v files and folders, %v blocks; recorded %+v", state["NumLiveDataNodes"], state["FilesTotal"], state["BlocksTotal"], left)
	}
}

// undecided are the methods whose number the clock decides, how reports of blocks are merged,
// or a reply.
var undecided = []string{"DatanodeProtocol.sendHeartbeat", "DatanodeProtocol.blockReceivedAndDeleted", "ClientProtocol.complete", "ClientProtocol.renewLease"}

// learnedFrom is the program of the small scales, with its overrides.
func learnedFrom(t *testing.T, j hadoop.Jars, name, traces string) *program.Program {
	t.Helper()
	logs := corpus.New()
	for _, n := range learnedScales {
		run := logs.Begin(fmt.Sprintf("n%03d", n))
		eachCall(t, j, filepath.Join(traces, fmt.Sprintf("n%03d", n)), run.Add)
		logs.Learn(run)
	}
	model, err := mine.Learn(t.Context(), logs)
	if err != nil {
		t.Fatal(err)
	}
	file := name + ".yaml"
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	overrides, err := mine.ReadOverrides(file, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := overrides.Apply(file, model.Program); err != nil {
		t.Fatal(err)
	}
	return model.Program
}

// eachCall visits the calls of Hadoop's own logs, with what the descriptors add.
func eachCall(t *testing.T, j hadoop.Jars, folder string, visit func(*trace.Call)) {
	t.Helper()
	schema := schemaOf(t, j)
	in, err := trace.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	visitAll(t, in, func(c *trace.Call) {
		schema.Complete(c)
		visit(c)
	})
}
