package colocation

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/lab/search"
	"gleaner/lab/search/service"
	"gleaner/local"
)

// TestMain lets this program act as the processes that it starts: the service, the
// supervisors of tasks, and the tasks.
func TestMain(m *testing.M) {
	args := strings.Join(os.Args[1:min(len(os.Args), 3)], " ")
	var err error
	switch {
	case args == "lab search":
		err = service.Serve(context.Background(), os.Args[3], "127.0.0.1:0", os.Stdin, os.Stdout)
	case args == "lab batch":
		b := Batch{Stage: os.Args[3], Dir: os.Args[4]}
		b.Rows, _ = strconv.Atoi(os.Args[6])
		b.MB, _ = strconv.Atoi(os.Args[8])
		b.Index, _ = strconv.Atoi(os.Getenv("GLEANER_TASK_INDEX"))
		err = b.Run(os.Stdout)
	case args == "task":
		err = local.Supervise()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The service answers, and a job that harvests the machine finishes beside it. There
// is no guard here: on a busy machine, a guard would make the job wait forever.
func TestAJobRunsBesideTheService(t *testing.T) {
	b := &bench{dir: t.TempDir(), corpus: search.Corpus{Documents: 300, Words: 1000, Length: 20, Seed: 1},
		size: size{length: time.Second, windows: 2, calibrate: 200 * time.Millisecond}}
	if err := b.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}()
	if b.whole <= 0 || b.kit.rows <= 0 {
		t.Fatalf("%v queries a second, %d rows a task", b.whole, b.kit.rows)
	}
	for _, shapes := range [][]shape{queries[2:], copies[1:]} {
		jobRuns(t, b, shapes[0])
	}
}

func jobRuns(t *testing.T, b *bench, s shape) {
	t.Helper()
	dir := t.TempDir()
	world, err := local.Open(local.Options{Dir: dir, Server: "here", Equal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	policy, err := harvest.PolicyNamed("stock")
	if err != nil {
		t.Fatal(err)
	}
	kit := b.kit
	kit.request = cluster.Resources{CPU: cluster.Core / 2, Memory: taskMemory}
	j, err := b.rule(t.Context(), world, policy, harvest.PaperReserve, func(ctx context.Context) error {
		if err := submit(ctx, world, kit, []arrival{{0, s}}, dir); err != nil {
			return err
		}
		record, err := search.Load{At: []time.Duration{0, time.Millisecond}, Queries: b.corpus.Queries(2, rand.New(rand.NewPCG(1, 1)))}.Play(ctx, b.service.URL)
		if err != nil || record.Failed() > 0 {
			return fmt.Errorf("%d queries failed: %w", record.Failed(), err)
		}
		return ended(ctx, filepath.Join(dir, "jobs", "1", "ended.json"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	j.sum(&o, kit.mb)
	if len(o.jobs) != 1 || !o.jobs[0].finished || o.jobs[0].took <= 0 || o.started < s.first+s.width {
		t.Errorf("%+v", o)
	}
	if s.disk {
		if o.moved != (s.first+s.width)*kit.mb {
			t.Errorf("%d MB moved", o.moved)
		}
		return
	}
	out, err := world.Output(cluster.TaskID{Job: 1, Stage: "top"}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if text, _ := io.ReadAll(out); strings.Count(string(text), "\n") != 10 {
		t.Errorf("the query's answer: %q", text)
	}
}

// ended waits for a file that says that a job has ended.
func ended(ctx context.Context, path string) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("no %s: %w", path, context.DeadlineExceeded)
		}
	}
}

func TestRoomBesideReserveAndPrimary(t *testing.T) {
	for cores, want := range map[int]cluster.MilliCPU{1: -333, 2: 334, 3: 1000, 12: 1000} {
		got := roomFor(cluster.Resources{CPU: cluster.MilliCPU(cores) * cluster.Core})
		if got != want {
			t.Errorf("%d cores: %d, want %d", cores, got, want)
		}
	}
}

func TestReadings(t *testing.T) {
	before, err := read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	sold := tally(1, 3_000_000)
	after, err := read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after.primary - before.primary; used <= 0 || slices.Max(sold) == 0 {
		t.Errorf("going through a table took %v", used)
	}
	if busy, stolen, primary := after.since(before); busy < 0 || busy > 1 || stolen < 0 || stolen > 1 || primary <= 0 {
		t.Errorf("%v, %v, %v", busy, stolen, primary)
	}
}
