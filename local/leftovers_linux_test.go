package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/local/cgroup"
)

// groupDirs lists the control groups below that of a world, in all hierarchies.
func (s *stage) groupDirs() []string {
	name, err := parentName(s.world.Dir)
	if err != nil {
		s.Fatal(err)
	}
	var all []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() && strings.Contains(path, name+"/") {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// A command that cannot be executed leaves no control group behind.
func TestUnstartableLeavesNoGroups(t *testing.T) {
	s := act(t, t.TempDir(), false)
	for job := range 5 {
		bad := shell("bad", 50, "")
		bad.Failures, bad.Command, bad.Request.CPU = 1, []string{"/no/such/program"}, 10
		s.submit(bad)
		s.until(job+1, "finish job-")
	}
	started := len(s.found("start job-"))
	s.until(started, "task ") // all of them, and then their ends
	for deadline := time.Now().Add(30 * time.Second); len(s.found("task failed"))+len(s.found("task killed")) < started; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks started and not all ended", started)
		}
	}
	if left := s.groupDirs(); len(left) > 0 {
		t.Errorf("%d tasks left %d control groups: %q, …", started, len(left), left[0])
	}
}

// Groups that an earlier gleaner left behind are removed at the start.
func TestGroupsLeftBehindAreSwept(t *testing.T) {
	dir := t.TempDir()
	s := act(t, dir, false)
	for i := range 3 {
		if _, err := s.world.groups.New(fmt.Sprintf("7-map-%d.1", i), cgroup.Limits{Request: cluster.Resources{CPU: 100, Memory: cluster.GB}}); err != nil {
			t.Fatal(err)
		}
	}
	s.close()
	if len(s.groupDirs()) < 3 {
		t.Fatal("there is nothing to sweep")
	}
	next := act(t, dir, false)
	if left := next.groupDirs(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Each run has a directory of its own that is removed when it has ended, however it
// ended, and the tasks of a job share one that is removed when the job has ended.
func TestScratchIsPrivateAndGoesAway(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		dir := t.TempDir()
		s := act(t, filepath.Join(dir, "world"), plain)
		const fill = `test "$TMPDIR" = "$GLEANER_SCRATCH"; stat -c %a "$GLEANER_SCRATCH" "$GLEANER_SHARED"
			mkdir -p "$TMPDIR/a/b"; touch "$TMPDIR/a/b/c" "$GLEANER_SHARED/$GLEANER_STAGE-$GLEANER_TASK_INDEX"; chmod 500 "$TMPDIR/a/b"; echo "$GLEANER_JOB_ID $GLEANER_TASKS"; `
		fails := shell("fails", 1, fill+"test $GLEANER_ATTEMPT = 2", "map")
		last := shell("last", 1, `ls "$GLEANER_SHARED"; sleep 1000`, "fails")
		s.submit(shell("map", 2, fill), fails, last)
		s.written(cluster.TaskID{Job: 1, Stage: "map", Index: 1}, "700\n700\n1 2\n")
		s.written(cluster.TaskID{Job: 1, Stage: "last"}, "fails-0\nmap-0\nmap-1\n")
		if left := s.scratches(); len(left) != 1 || !strings.HasSuffix(left[0], "last-0.1/scratch") {
			t.Errorf("three runs have ended and one goes on: %q", left)
		}
		if err := s.world.Cancel(1); err != nil {
			t.Fatal(err)
		}
		s.until(1, "task killed")
		s.gone(filepath.Join(jobPath(s.world.Dir, 1), sharedDir))
		if left := s.scratches(); len(left) != 0 {
			t.Errorf("all runs have ended: %q", left)
		}
	})
}

func (s *stage) scratches() []string {
	all, _ := filepath.Glob(filepath.Join(s.world.Dir, jobsDir, "*", "*", scratchDir))
	return all
}

// gone waits until there is no such file.
func (s *stage) gone(name string) {
	s.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	s.Errorf("%s is still there", name)
}

// The next gleaner removes what a run left whose supervisor was killed with gleaner,
// and the shared directory of a job that has ended.
func TestScratchGoesAwayAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := act(t, dir, true)
	s.submit(shell("hold", 1, `test $GLEANER_ATTEMPT = 2 && exit; touch "$TMPDIR/half" "$GLEANER_SHARED/whole"; echo up; sleep 1000`))
	s.written(cluster.TaskID{Job: 1, Stage: "hold"}, "up\n")
	s.stop() // the loop ends, as if gleaner had been killed
	s.world.mu.Lock()
	hold := s.world.tasks[cluster.TaskID{Job: 1, Stage: "hold"}]
	s.world.mu.Unlock()
	if err := unix.Kill(hold.supervisor(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-hold.done
	// Put it back as the crash would have left it.
	scratch := filepath.Join(hold.dir, scratchDir)
	if err := errors.Join(os.Remove(filepath.Join(hold.dir, exitFile)), os.MkdirAll(filepath.Join(scratch, "deep"), 0o700)); err != nil {
		t.Fatal(err)
	}
	s.close()
	next := act(t, dir, true)
	next.gone(scratch)
	next.until(1, "finish job-1")
	next.gone(filepath.Join(jobPath(dir, 1), sharedDir))
	next.close()
	if err := os.Mkdir(filepath.Join(jobPath(dir, 1), sharedDir), 0o700); err != nil {
		t.Fatal(err)
	}
	act(t, dir, true).gone(filepath.Join(jobPath(dir, 1), sharedDir))
}

// What is mounted in the directory of a task is not removed with it.
func TestMountsAreNotEmptied(t *testing.T) {
	other, dir := t.TempDir(), t.TempDir()
	precious := filepath.Join(other, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := act(t, dir, true)
	s.submit(shell("mounts", 1, `mkdir "$TMPDIR/in side"; echo made; until ls "$TMPDIR/in side" | grep precious; do sleep 0.05; done`))
	task := cluster.TaskID{Job: 1, Stage: "mounts"}
	s.written(task, "made\n")
	if err := unix.Mount(other, filepath.Join(runPath(dir, task), scratchDir, "in side"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	s.until(1, "finish job-1")
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	if left := s.scratches(); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

// Output beyond the limit is dropped, with a note; the task goes on.
func TestOutputIsLimited(t *testing.T) {
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		st := shell("talk", 1, `echo first; head -c 3000000 /dev/zero | tr '\0' x; echo last; echo few >&2`)
		st.Output = 100_000
		s.submit(st)
		if got := s.until(1, "finish job-1"); got[0] != "finish job-1" {
			t.Errorf("%q", got)
		}
		dir := runPath(s.world.Dir, cluster.TaskID{Job: 1, Stage: "talk"})
		text, err := os.ReadFile(filepath.Join(dir, stdoutFile))
		if err != nil || len(text) > 100_200 || !strings.HasPrefix(string(text), "first\nxxx") || !strings.Contains(string(text[100_000:]), "[gleaner: the output ends here") {
			t.Errorf("%d bytes are kept: %v, and end with %q", len(text), err, text[max(0, len(text)-200):])
		}
		if text, err := os.ReadFile(filepath.Join(dir, stderrFile)); err != nil || string(text) != "few\n" {
			t.Errorf("stderr: %q, %v", text, err)
		}
		var how exit
		if _, err := readFile(filepath.Join(dir, exitFile), &how); err != nil || how.Cut != 3_000_011-100_000 {
			t.Errorf("%d bytes were dropped, %v", how.Cut, err)
		}
	})
}

// A task cannot have more processes than its limit.
func TestProcessesAreLimited(t *testing.T) {
	s := act(t, t.TempDir(), false)
	st := shell("fork", 1, `sh -c 'for i in $(seq 100); do sleep 1000 & done; echo all' 2>&1 | head -n 1`)
	st.Processes = 20
	s.submit(st)
	s.until(1, "finish job-1")
	text, _ := os.ReadFile(filepath.Join(runPath(s.world.Dir, cluster.TaskID{Job: 1, Stage: "fork"}), stdoutFile))
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil && string(text) == "all\n" {
		t.Skip("the kernel does not count processes")
	}
	if !strings.Contains(string(text), "fork") {
		t.Errorf("a hundred processes with a limit of twenty: %q", text)
	}
}

// If a task replaces its directory with a link, the target of the link is neither
// unmounted nor removed.
func TestALinkForADirectory(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other", "sub")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", other, "tmpfs", 0, ""); err == nil {
		defer func() { _ = unix.Unmount(other, unix.MNT_DETACH) }()
	} else {
		t.Logf("not tried with a file system of its own: %v", err)
	}
	if err := os.WriteFile(filepath.Join(other, "file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := act(t, filepath.Join(dir, "world"), true)
	s.submit(shell("link", 1, `rmdir $GLEANER_SCRATCH; ln -s `+dir+`/other $GLEANER_SCRATCH`))
	s.until(1, "finish job-1")
	if _, err := os.ReadFile(filepath.Join(other, "file")); err != nil {
		t.Error(err)
	}
	scratch := filepath.Join(runPath(s.world.Dir, cluster.TaskID{Job: 1, Stage: "link"}), scratchDir)
	if _, err := os.Lstat(scratch); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link is still there: %v", err)
	}
}

// A task may spoil the directory of its job: that ends neither this world nor the
// next, and the job's number is not given to another job.
func TestTasksSpoilTheirJobsOnly(t *testing.T) {
	dir := t.TempDir()
	s := act(t, dir, true)
	scripts := []string{
		`rm -rf $(dirname $GLEANER_RUN_DIR)`,
		`mkdir $GLEANER_RUN_DIR/../x-0.1; echo garbage > $GLEANER_RUN_DIR/../x-0.1/run.json`,
		`mkdir $GLEANER_RUN_DIR/exit.json`,
		`mkdir $GLEANER_RUN_DIR/../ended.json`,
		`echo garbage > $GLEANER_RUN_DIR/../job.json`,
		`echo {} > $GLEANER_RUN_DIR/../job.json`,
		`cd $GLEANER_RUN_DIR/..; sed s/'"ID":[0-9]*'/'"ID":1'/ job.json > other; mv other job.json`,
		`cd $GLEANER_RUN_DIR/..; rm job.json; mkfifo job.json`,
		`cd $GLEANER_RUN_DIR; ln -s /dev/zero kill.json`,
		`cd $GLEANER_RUN_DIR; mkfifo kill.json`,
		`mkdir $GLEANER_RUN_DIR/../x-0.9; mkfifo $GLEANER_RUN_DIR/../x-0.9/run.json`,
		`mkdir $GLEANER_RUN_DIR/../../9223372036854775807`,
		`true`,
	}
	for k, script := range scripts {
		st := shell("s", 1, script)
		st.Failures = 1
		s.submit(st)
		s.until(1, fmt.Sprintf("finish job-%d", k+1))
	}
	s.stop()
	s.close()
	next := act(t, dir, true)
	id := next.submit(shell("more", 1, "true"))
	if int(id) != len(scripts)+1 {
		t.Errorf("the next job is %s", id)
	}
	next.until(1, fmt.Sprint("finish ", id))
}
