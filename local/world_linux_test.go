package local

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
)

// TestMain lets this program be its own supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[0] == "gleaner" && os.Args[1] == "task" {
		if err := Supervise(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(tryCallsVariable) != "" {
		tryCalls()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A stage is a world under test: the test sets the primary's use and gets all
// events and actions.
type stage struct {
	*testing.T
	world *World
	stop  func() // the loop
	close func() // the world too

	brain     func() *control.Brain
	recorded  bytes.Buffer
	recording *control.Recording

	mu      sync.Mutex
	primary cluster.Resources
	lines   []string // events and actions
	at      []time.Time
}

// act opens a world in dir under a policy without memory. Whatever this machine has,
// two cores of it can be harvested, less 0.4.
func act(t *testing.T, dir string, plain bool) *stage {
	t.Helper()
	return actAs(t, "primary", dir, plain)
}

func actAs(t *testing.T, name, dir string, plain bool) *stage {
	t.Helper()
	s := &stage{T: t}
	w, err := Open(Options{Dir: dir, Server: "here", Every: 50 * time.Millisecond, Plain: plain, Equal: true, Sample: func() (Sample, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return Sample{Primary: s.primary}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !plain && !w.Confined() {
		w.Close()
		t.Skip("no control groups here")
	}
	s.world = w
	s.recording = control.NewRecording(&s.recorded)
	s.brain = func() *control.Brain { return brain(t, name, w.Machine()) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.RunApart(ctx, w, s.brain(), s) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	})
	s.close = sync.OnceFunc(func() {
		s.stop()
		w.Stop("the test is over")
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.close()
		if t.Failed() {
			t.Log("what happened:\n" + strings.Join(s.lines, "\n"))
		}
	})
	return s
}

// brain returns a new brain, always with the same options.
func brain(t *testing.T, name string, machine cluster.Server) *control.Brain {
	t.Helper()
	policy, err := harvest.PolicyNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	reserve := harvest.Reserve{Fixed: cluster.Resources{CPU: machine.CPU - 2*cluster.Core + 400, Memory: cluster.MB}}
	return control.NewBrain(harvest.Options{Policy: policy, Reserve: reserve, Rand: rand.New(rand.NewPCG(1, 1)), Steady: 100 * time.Millisecond})
}

func (s *stage) Event(ev cluster.Event) error {
	if err := s.recording.Event(ev); err != nil {
		return err
	}
	if ev.Kind == cluster.UseReported {
		return nil
	}
	line := ev.Kind.String()
	if ev.Task != (cluster.TaskID{}) {
		line += " " + ev.Task.String()
	}
	if ev.Reason != "" {
		line += ": " + ev.Reason
	}
	s.note(line, ev.At)
	return nil
}

func (s *stage) Action(a cluster.Action) error {
	s.note(a.String(), time.Now())
	return s.recording.Action(a)
}

func (s *stage) note(line string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines, s.at = append(s.lines, line), append(s.at, at)
}

// uses sets what the primary uses, in thousandths of a core.
func (s *stage) uses(cpu cluster.MilliCPU) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.primary = cluster.Resources{CPU: cpu}
}

// until waits for n lines with a prefix, and returns them. Tasks have only idle CPU: where other programs leave none, that takes long.
func (s *stage) until(n int, prefix string) []string {
	s.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if found := s.found(prefix); len(found) >= n {
			return found
		}
		if time.Now().After(deadline) {
			s.Fatalf("%d of %d lines %q within four minutes", len(s.found(prefix)), n, prefix)
		}
	}
}

func (s *stage) found(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range s.lines {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

func (s *stage) submit(stages ...cluster.Stage) cluster.JobID {
	s.Helper()
	id, err := s.world.Submit(&cluster.Job{Name: s.Name(), Stages: stages})
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func shell(name string, tasks int, script string, after ...string) cluster.Stage {
	return cluster.Stage{Name: name, Tasks: tasks, Request: cluster.Resources{CPU: 300, Memory: 64 * cluster.MB}, After: after, Command: []string{"sh", "-ceu", script}}
}

// bothWays runs a test with control groups and without.
func bothWays(t *testing.T, test func(t *testing.T, plain bool)) {
	for _, plain := range []bool{false, true} {
		t.Run(map[bool]string{false: "groups", true: "plain"}[plain], func(t *testing.T) {
			t.Parallel()
			test(t, plain)
		})
	}
}

func TestBurstKillsTheYoungestAndTheyComeBack(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		s := act(t, filepath.Join(dir, "world"), plain)
		// Each task writes the numbers of its processes: a child, and one that tries to escape.
		s.submit(shell("hold", 5, `(setsid sleep 1000 & echo $! >> `+dir+`/pids); sleep 1000 & echo $! >> `+dir+`/pids; echo up; wait`))
		s.until(5, "task started")
		for i := range 5 {
			s.written(cluster.TaskID{Job: 1, Stage: "hold", Index: int32(i)}, "up\n")
		}
		before := pidsIn(t, dir)

		// 1.6 cores can be held while the primary sleeps, and 0.6 while it uses one.
		s.uses(900)
		killed := s.until(3, "task killed")
		const because = ": reserve short by 0.9 cores"
		if got := s.found("kill "); !slices.Equal(got, []string{
			"kill job-1/hold-4 on here" + because, "kill job-1/hold-3 on here" + because, "kill job-1/hold-2 on here" + because}) {
			t.Errorf("killed %q, want the youngest first and no more than needed", got)
		}
		if len(killed) != 3 {
			t.Errorf("%q", killed)
		}
		living := 0
		for _, pid := range before {
			if _, alive := processOf(pid); alive {
				living++
			}
		}
		if living != 4 {
			t.Errorf("%d processes of %d are alive, want those of two tasks", living, len(before))
		}
		t.Logf("from the decision to the last process gone: %v", s.between("kill job-1/hold-4", "task killed").Round(time.Millisecond))

		s.uses(0)
		s.until(8, "task started")
		again := s.found("task started")[5:]
		slices.Sort(again)
		if !slices.Equal(again, []string{"task started job-1/hold-2#2", "task started job-1/hold-3#2", "task started job-1/hold-4#2"}) {
			t.Errorf("came back: %q", again)
		}
	})
}

// between is the time from the first line with the prefix first to the last line with the prefix last.
func (s *stage) between(first, last string) (d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := slices.IndexFunc(s.lines, func(line string) bool { return strings.HasPrefix(line, first) })
	for i, line := range s.lines {
		if strings.HasPrefix(line, last) {
			d = s.at[i].Sub(s.at[from])
		}
	}
	return d
}

// written waits until a task has written text.
func (s *stage) written(id cluster.TaskID, want string) {
	s.Helper()
	var text []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, _ = os.ReadFile(filepath.Join(runPath(s.world.Dir, id), stdoutFile))
		if string(text) == want {
			return
		}
	}
	s.Fatalf("%s wrote %q, want %q", id, text, want)
}

func pidsIn(t *testing.T, dir string) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

// A job that is wider than this machine runs piece by piece, and a killed task runs
// again, under the policy of 'gleaner up'.
func TestWideJobUnderTheHistoryPolicy(t *testing.T) {
	s := actAs(t, "history", t.TempDir(), true)
	s.submit(shell("map", 12, "true"), shell("hold", 1, "test $GLEANER_ATTEMPT = 2 || sleep 1000", "map"))
	s.until(13, "task started")
	s.uses(2 * cluster.Core)
	s.until(1, "task killed job-1/hold-0: reserve short by ")
	s.uses(0)
	s.until(1, "finish job-1")

	// A recording of this machine is a test case of the decisions.
	s.stop()
	if err := s.recording.Flush(); err != nil {
		t.Fatal(err)
	}
	if events, err := control.Replay("recording", &s.recorded, s.brain()); err != nil || events < 30 {
		t.Errorf("replayed %d events: %v", events, err)
	}
}

func TestTasksAreToldWhoTheyAre(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		s := act(t, filepath.Join(dir, "world"), plain)
		st := shell("say", 2, `echo "$GLEANER_JOB $GLEANER_STAGE $GLEANER_TASK_INDEX $GLEANER_ATTEMPT $MORE $PWD"; echo trouble >&2; test $GLEANER_ATTEMPT = 2`)
		st.Env, st.Dir, st.Failures = []string{"MORE=more"}, dir, 2
		s.submit(st)
		s.until(1, "finish job-1")
		for i := range 2 {
			id := cluster.TaskID{Job: 1, Stage: "say", Index: int32(i)}
			s.written(id, fmt.Sprintf("%s say %d 1 more %s\n", t.Name(), i, dir))
			id.Attempt = 1
			s.written(id, fmt.Sprintf("%s say %d 2 more %s\n", t.Name(), i, dir))
			f, err := s.world.Output(id, true)
			if err != nil {
				t.Fatal(err)
			}
			text := make([]byte, 100)
			n, _ := f.Read(text)
			f.Close()
			if string(text[:n]) != "trouble\n" {
				t.Errorf("stderr %q", text[:n])
			}
		}
		if got := s.found("task failed"); len(got) != 2 || !strings.HasSuffix(got[0], ": exit code 1") {
			t.Errorf("%q", got)
		}
	})
}

// Tasks get only idle CPU and disk, unless they run at the usual priority.
func TestTasksHaveTheLowestPriority(t *testing.T) {
	for name, equal := range map[string]bool{"least": false, "equal": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := act(t, dir, true)
			s.world.mu.Lock()
			s.world.Equal = equal
			s.world.mu.Unlock()
			s.submit(shell("hold", 1, "echo $$ > "+dir+"/pids; echo up; sleep 1000"))
			s.written(cluster.TaskID{Job: 1, Stage: "hold"}, "up\n")
			pid := pidsIn(t, dir)[0]
			cpu, disk := priorities(t, pid)
			if want, _ := priorities(t, 0); equal && (cpu != want || disk == onlyIdleDisk) || !equal && (cpu != 20-lowest || disk != onlyIdleDisk) {
				t.Errorf("priorities %d and %#x, the test's own %d", cpu, disk, want)
			}
			score, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
			if own, _ := os.ReadFile("/proc/self/oom_score_adj"); equal && !bytes.Equal(score, own) || !equal && string(score) != "1000\n" {
				t.Errorf("when memory is short it counts %s, the test %s", score, own)
			}
		})
	}
}

// Tasks at the usual priority are not isolated.
func TestEqualTasksAreNotIsolated(t *testing.T) {
	for _, equal := range []bool{false, true} {
		w, err := Open(Options{Dir: t.TempDir(), Server: "here", Equal: equal})
		if err != nil {
			t.Fatal(err)
		}
		if want := !equal && w.Confined() && w.groups.Isolates(); w.Isolated() != want {
			t.Errorf("equal %v: isolated %v", equal, w.Isolated())
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A supervisor has the low priority of its task, until the task is killed.
func TestASupervisorIsHastened(t *testing.T) {
	dir := t.TempDir()
	s := act(t, dir, true)
	s.world.mu.Lock()
	s.world.Equal = false
	s.world.mu.Unlock()
	s.submit(shell("hold", 1, "echo $PPID > "+dir+"/pids; echo up; sleep 1000"))
	s.written(cluster.TaskID{Job: 1, Stage: "hold"}, "up\n")
	pid := pidsIn(t, dir)[0]
	slowest := func() int {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		least := 40
		for _, thread := range threads {
			tid, _ := strconv.Atoi(thread.Name())
			cpu, _ := priorities(t, tid)
			least = min(least, cpu)
		}
		return least
	}
	if got := slowest(); got != 20-lowest {
		t.Fatalf("before: %d", got)
	}
	hasten(pid)
	if os.Getuid() != 0 {
		t.Skip("only root may raise priorities")
	}
	if got := slowest(); got != 20 {
		t.Errorf("its slowest thread has the priority %d, want 20", got)
	}
}

// priorities returns the priorities of a process: the kernel counts 20 less niceness.
func priorities(t *testing.T, pid int) (cpu, disk int) {
	t.Helper()
	cpu, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	got, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(pid), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return cpu, int(got)
}

func TestWhatFailsSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"code":   {"exit 7", "exit code 7"},
		"signal": {"kill -SEGV $$", "ended by SIGSEGV"},
	} {
		t.Run(name, func(t *testing.T) {
			s := act(t, t.TempDir(), true)
			st := shell("bad", 1, tc.script)
			st.Failures = 1
			s.submit(st)
			want := "finish job-1: job-1/bad-0 failed 1 time: " + tc.want
			if got := s.until(1, "finish job-1"); got[0] != want {
				t.Errorf("%q, want %q", got[0], want)
			}
		})
	}
	t.Run("no such program", func(t *testing.T) {
		s := act(t, t.TempDir(), true)
		st := shell("bad", 1, "")
		st.Failures, st.Command = 1, []string{"/no/such/program"}
		s.submit(st)
		if got := s.until(1, "finish job-1"); !strings.Contains(got[0], "/no/such/program: no such file") {
			t.Errorf("%q", got[0])
		}
	})
	t.Run("a command of 16 GB", func(t *testing.T) {
		s := act(t, t.TempDir(), true)
		st := shell("bad", 1, strings.Repeat("{}", 160_000))
		st.Failures, st.Each = 1, []string{strings.Repeat("x", 100_000)}
		s.submit(st)
		want := "finish job-1: job-1/bad-0 failed 1 time: could not be started: argument list too long: argument 2 has 16000000000 bytes, more than 131071"
		if got := s.until(1, "finish job-1"); got[0] != want {
			t.Errorf("%q, want %q", got[0], want)
		}
	})
	t.Run("memory", func(t *testing.T) {
		s := act(t, t.TempDir(), false)
		st := shell("bad", 1, "exec tail /dev/zero")
		st.Failures = 1
		s.submit(st)
		if got := s.until(1, "finish job-1"); !strings.HasSuffix(got[0], "out of memory: the task used more than it requested") {
			t.Errorf("%q", got[0])
		}
	})
	t.Run("memory of a child", func(t *testing.T) {
		s := act(t, t.TempDir(), false)
		st := shell("bad", 1, "tail /dev/zero; exit 0") // -e: the shell ends as its child did
		st.Failures = 1
		s.submit(st)
		if got := s.until(1, "finish job-1"); !strings.HasSuffix(got[0], "out of memory: a process of the task was killed because the task used more than it requested; exit code 137") {
			t.Errorf("%q", got[0])
		}
	})
	t.Run("memory of a child that is not missed", func(t *testing.T) {
		s := act(t, t.TempDir(), false)
		s.submit(shell("good", 1, "tail /dev/zero || true"))
		if got := s.until(1, "finish job-1"); got[0] != "finish job-1" {
			t.Errorf("%q", got[0])
		}
	})
}

// Processes that a command leaves behind end with it: its room is given to others.
func TestNothingIsLeftBehind(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		s := act(t, filepath.Join(dir, "world"), plain)
		s.submit(shell("daemon", 1, `(setsid sleep 1000 > /dev/null & echo $! > `+dir+`/pids)`))
		s.until(1, "finish job-1")
		for _, pid := range pidsIn(t, dir) {
			if _, alive := processOf(pid); alive {
				t.Errorf("%d lives on", pid)
			}
		}
	})
}

// A chain of processes, each of which starts the next and ends at once, is not outrun by a list of processes.
func TestAChainOfProcessesEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		link := filepath.Join(dir, "link")
		must(t, os.WriteFile(link, []byte("#!/bin/sh\necho >> "+dir+"/links\nsetsid \"$0\" > /dev/null 2>&1 &\n"), 0o700))
		s := act(t, filepath.Join(dir, "world"), plain)
		for job := range 5 {
			s.submit(shell("chain", 1, link+"; sleep 0.1"))
			s.until(1, fmt.Sprintf("finish job-%d", job+1))
			links := func() int64 {
				info, err := os.Stat(dir + "/links")
				must(t, err)
				return info.Size()
			}
			before := links()
			time.Sleep(50 * time.Millisecond)
			if now := links(); now != before {
				must(t, os.Remove(link)) // it ends
				t.Fatalf("it goes on: %d links, and %d a moment later", before, now)
			}
		}
	})
}

func TestCancelKills(t *testing.T) {
	s := act(t, t.TempDir(), true)
	id := s.submit(shell("hold", 2, "sleep 1000"), shell("never", 1, "true", "hold"))
	s.until(2, "task started")
	if err := s.world.Cancel(id); err != nil {
		t.Fatal(err)
	}
	if got := s.until(1, "finish"); got[0] != "finish job-1: cancelled" {
		t.Errorf("%q", got)
	}
	s.until(2, "task killed")
	if err := s.world.Cancel(id); err != cluster.ErrEnded {
		t.Errorf("cancelled again: %v", err)
	}
	if err := s.world.Cancel(id + 1); err != cluster.ErrNoJob {
		t.Errorf("cancelled another: %v", err)
	}
	s.stop()
	next := &World{Options: Options{Dir: s.world.Dir}}
	past, _, _, err := next.scan()
	if err != nil || len(past) != 1 || !past[0].Cancelled || past[0].Started.IsZero() {
		t.Errorf("what the next world knows of it: %+v, %v", past, err)
	}
}

// A world that stops cleanly kills its tasks; the next runs them again.
func TestStoppedTasksRunAgain(t *testing.T) {
	dir := t.TempDir()
	s := act(t, dir, true)
	s.submit(shell("work", 1, `test $GLEANER_ATTEMPT = 2 || sleep 1000`), shell("then", 1, "true", "work"))
	s.until(1, "task started")
	if _, err := Open(Options{Dir: dir, Server: "here"}); err == nil || !strings.Contains(err.Error(), ErrHeld.Error()) {
		t.Errorf("opened twice: %v", err)
	}
	s.stop()
	if again := s.world.Stop("enough"); len(again) != 1 || again[0].String() != "job-1/work-0" {
		t.Errorf("to be run again: %v", again)
	}
	s.close()
	next := act(t, dir, true)
	next.until(1, "finish job-1")
	if got := next.found("start "); !slices.Equal(got, []string{"start job-1/work-0#2 on here", "start job-1/then-0 on here"}) {
		t.Errorf("%q", got)
	}
	if id := next.submit(shell("more", 1, "true")); id != 2 {
		t.Errorf("the next job is %s", id)
	}
}

// When a supervisor is killed, its command dies too, and the task is run again.

func TestLostSupervisor(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		s := act(t, filepath.Join(dir, "world"), plain)
		s.submit(shell("work", 1, `test $GLEANER_ATTEMPT = 2 && exit; (setsid sleep 1000 & echo $! >> `+dir+`/pids); sleep 1000 & echo $! >> `+dir+`/pids; echo up; wait`))
		s.written(cluster.TaskID{Job: 1, Stage: "work"}, "up\n")
		s.world.mu.Lock()
		supervisor := s.world.tasks[cluster.TaskID{Job: 1, Stage: "work"}].supervisor()
		s.world.mu.Unlock()
		if err := unix.Kill(supervisor, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.until(1, "task killed job-1/work-0: its supervisor is gone")
		for _, pid := range pidsIn(t, dir) {
			if _, alive := processOf(pid); alive {
				t.Errorf("%d lives on", pid)
			}
		}
		s.until(1, "finish job-1")
	})
}

// A task that kills its supervisor again and again fails.
func TestSupervisorsAreNotLostForEver(t *testing.T) {
	s := act(t, t.TempDir(), true)
	st := shell("kills", 1, `kill -9 $PPID; sleep 1000`)
	st.Failures = 1
	s.submit(st)
	if got := s.until(1, "finish job-1"); got[0] != "finish job-1: job-1/kills-0 failed 1 time: its supervisor is gone" {
		t.Errorf("%q", got[0])
	}
	if n := len(s.found("task killed job-1")); n != mostLost {
		t.Errorf("lost %d times before that", n)
	}
}

func TestPruneForgetsOnlyWhatEnded(t *testing.T) {
	dir := t.TempDir()
	s := act(t, dir, true)
	s.submit(shell("quick", 1, "true"))
	s.until(1, "finish job-1")
	s.submit(shell("slow", 1, "sleep 1000"))
	s.submit(shell("quick", 1, "true"))
	s.until(1, "finish job-3")
	if err := s.world.Prune(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.world.jobIDs(); err != nil || !slices.Equal(ids, []cluster.JobID{2, 3}) {
		t.Errorf("left: %v, %v", ids, err)
	}
}

func TestMeterReadsThisMachine(t *testing.T) {
	m, err := newMeter(runtime.NumCPU(), func() (time.Duration, int64, error) { return 0, 0, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.stat.Close()
	spin := time.Now()
	for time.Since(spin) < 300*time.Millisecond {
	}
	s, err := m.sample()
	if err != nil {
		t.Fatal(err)
	}
	size := cluster.MilliCPU(runtime.NumCPU()) * cluster.Core
	if s.Primary.CPU <= 0 || s.Primary.CPU > size || s.Primary.Memory <= 0 {
		t.Errorf("%+v", s)
	}
}

// A glance is taken fifteen times a second while tasks run: 333 µs would be
// 0.5% of a core.
func BenchmarkGlance(b *testing.B) {
	w, err := Open(Options{Dir: b.TempDir(), Server: "here"})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if !w.Confined() {
		b.Skip("no control groups here")
	}
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		if _, err := w.Glance(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// A sample is taken every second, so the CPU time of one is its share of a
// core: 10,000 µs would be 1%.
func BenchmarkSample(b *testing.B) {
	for _, plain := range []bool{false, true} {
		for _, tasks := range []int{0, 20} {
			b.Run(fmt.Sprintf("plain=%v/%dtasks", plain, tasks), func(b *testing.B) {
				w, err := Open(Options{Dir: b.TempDir(), Server: "here", Plain: plain, Equal: true})
				if err != nil {
					b.Fatal(err)
				}
				defer w.Close()
				if !plain && !w.Confined() {
					b.Skip("no control groups here")
				}
				if tasks > 0 {
					id, err := w.Submit(&cluster.Job{Name: "bench", Stages: []cluster.Stage{shell("hold", tasks, "sleep 1000")}})
					if err != nil {
						b.Fatal(err)
					}
					for i := range tasks {
						if err := w.Do(cluster.Action{Kind: cluster.StartTask, Task: cluster.TaskID{Job: id, Stage: "hold", Index: int32(i)}, On: "here"}); err != nil {
							b.Fatal(err)
						}
					}
					time.Sleep(3 * time.Second)
					defer w.Stop("the benchmark is over")
				}
				before := cpuTime(b)
				for b.Loop() {
					if _, err := w.report(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
