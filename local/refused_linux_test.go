package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
)

// tryCallsVariable makes this program try calls, with the process of that number.
const tryCallsVariable = "GLEANER_TEST_TRY_CALLS"

// tryCalls tries what tasks may not do, and some of what they may, and prints the
// outcome of each. The arguments are wrong, so that nothing happens if it is allowed.
func tryCalls() {
	var pid uintptr
	fmt.Sscan(os.Getenv(tryCallsVariable), &pid)
	for _, call := range refused {
		_, _, err := unix.RawSyscall6(uintptr(call), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0))
		if err != unix.EPERM {
			fmt.Printf("call %d: %v\n", call, err)
		}
	}
	for _, request := range attaching {
		if _, _, err := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), pid, 0, 0, 0, 0); err != unix.EPERM {
			fmt.Printf("ptrace %d: %v\n", request, err)
		}
	}
	if _, _, err := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0); err != 0 {
		fmt.Printf("getpid: %v\n", err)
	}
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} // it asks to be traced
	if err := cmd.Start(); err != nil {
		fmt.Printf("a child that asks to be traced: %v\n", err)
	} else {
		_ = cmd.Process.Kill()
	}
	fmt.Println("tried")
}

// Tasks, also root's, cannot make calls that change the machine for all, nor trace
// processes that did not ask for it.
func TestCallsAreRefused(t *testing.T) {
	if !canRefuse() {
		t.Skip("this kernel has no filters")
	}
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bothWays(t, func(t *testing.T, plain bool) {
		s := act(t, t.TempDir(), plain)
		st := shell("tries", 1, "")
		st.Command, st.Env = []string{self}, []string{fmt.Sprintf("%s=%d", tryCallsVariable, other.Process.Pid)}
		s.submit(st)
		s.written(cluster.TaskID{Job: 1, Stage: "tries"}, "tried\n")
	})
}

// A jailer has a world of root with a directory for other users, and two of these.
type jailer struct {
	*stage
	users    string
	ann, bob cluster.User
}

func newJailer(t *testing.T, plain bool) *jailer {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run tasks as others")
	}
	users, err := os.MkdirTemp("", "gleaner-test-users-") // that of the test is in one that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(users) })
	if err := os.Chmod(users, 0o711); err != nil {
		t.Fatal(err)
	}
	uid := uint32(2_000_000 + os.Getpid()*2)
	j := &jailer{act(t, t.TempDir(), plain), users, cluster.User{Name: "ann", UID: uid, GID: uid}, cluster.User{Name: "bob", UID: uid + 1, GID: uid + 1}}
	j.world.Users = users
	return j
}

func (j *jailer) submitAs(user cluster.User, stages ...cluster.Stage) cluster.JobID {
	j.Helper()
	id, err := j.world.Submit(&cluster.Job{Name: "job", User: user, Stages: stages})
	if err != nil {
		j.Fatal(err)
	}
	return id
}

// A task runs as the user who submitted it, with a directory and an environment of its
// own, and leaves nothing behind.
func TestTasksRunAsTheirUser(t *testing.T) {
	t.Setenv("GLEANER_TEST_SECRET", "of root")
	for _, plain := range []bool{false, true} {
		j := newJailer(t, plain)
		j.submitAs(j.ann, shell("who", 1, `id -u; id -g; id -G; echo "$USER ${GLEANER_TEST_SECRET-none}"; echo x > "$TMPDIR/mine"; echo y > "$GLEANER_SHARED/ours"; pwd`))
		ann := j.ann.UID
		j.written(cluster.TaskID{Job: 1, Stage: "who"}, fmt.Sprintf("%d\n%d\n%d\nann none\n/\n", ann, ann, ann))
		j.until(1, "finish job-1")
		j.gone(usersJob(j.users, 1))
	}
}

// What a task of one user cannot do to the data directory, to root and to other users.
func TestUsersAreApart(t *testing.T) {
	j := newJailer(t, false)
	j.submitAs(j.ann, shell("secret", 1, `echo secret; echo kept > "$GLEANER_SHARED/kept"; echo "$GLEANER_SHARED"; exec sleep 1000`))
	secret := cluster.TaskID{Job: 1, Stage: "secret"}
	shared := filepath.Join(usersJob(j.users, 1), sharedDir)
	j.written(secret, "secret\n"+shared+"\n")
	data, err := filepath.Abs(j.world.Dir)
	if err != nil {
		t.Fatal(err)
	}
	attacks := []string{
		"cat " + runPath(data, secret) + "/stdout",
		"ls " + data + "/" + jobsDir,
		"ls " + j.users + "/" + usersTasks,
		"cat " + shared + "/kept",
		"rm -r " + shared,
		"ln -s /etc " + usersJob(j.users, 2) + "/link",
		"mv $GLEANER_SHARED $GLEANER_SHARED.old",
		"ln -s /etc " + data + "/" + jobsDir + "/3",
		"kill -9 $(pgrep -u " + fmt.Sprint(j.ann.UID) + " sleep)",
		"cat /proc/$(pgrep -u " + fmt.Sprint(j.ann.UID) + " sleep)/environ",
		"cat /etc/shadow",
	}
	script := ""
	for i, attack := range attacks {
		script += fmt.Sprintf("if %s >/dev/null 2>&1; then echo attack %d succeeded; fi\n", attack, i)
	}
	j.submitAs(j.bob, shell("attacks", 1, script+"echo over"))
	j.written(cluster.TaskID{Job: 2, Stage: "attacks"}, "over\n")
	j.until(1, "finish job-2")
	if _, err := os.Stat(shared + "/kept"); err != nil {
		t.Error(err)
	}
}

// A user who puts links where gleaner removes what tasks left does not make it follow them.
func TestLinksOfUsersAreNotFollowed(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.MkdirAll(filepath.Join(precious, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	j := newJailer(t, true)
	st := shell("links", 1, `ln -s "$AT" "$TMPDIR/link"; ln -s "$AT/deep" "$GLEANER_SHARED/link"; mkdir "$TMPDIR/shut"; touch "$TMPDIR/shut/file"; chmod 0 "$TMPDIR/shut"`)
	st.Env = []string{"AT=" + precious}
	j.submitAs(j.ann, st)
	j.until(1, "finish job-1")
	j.gone(usersJob(j.users, 1))
	info, err := os.Stat(filepath.Join(precious, "deep"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// A task of a user that forks without end, and one that leaves its group and its
// session, die with their job.
func TestUsersTasksDie(t *testing.T) {
	j := newJailer(t, false)
	if !j.world.Confined() {
		t.Skip("there are no control groups")
	}
	forks := shell("forks", 1, `f() { while :; do sleep 1000 & sleep 0.01; done; }; f 2>/dev/null & setsid -f sleep 1000; env -i setsid -f sleep 1000; echo begun; exec sleep 1000`)
	forks.Processes = 50
	j.submitAs(j.ann, forks)
	j.written(cluster.TaskID{Job: 1, Stage: "forks"}, "begun\n")
	if err := j.world.Cancel(1); err != nil {
		t.Fatal(err)
	}
	j.until(1, "task killed")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, _ := exec.Command("pgrep", "-u", fmt.Sprint(j.ann.UID)).Output()
		if len(out) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still alive: %s", strings.Fields(string(out)))
		}
	}
}

// Without root's rights, or without a directory for users, jobs of others are refused.
func TestOthersAreRefused(t *testing.T) {
	s := act(t, t.TempDir(), true)
	_, err := s.world.Submit(&cluster.Job{Name: "job", User: cluster.User{Name: "ann", UID: 123456}, Stages: []cluster.Stage{shell("a", 1, "true")}})
	if err == nil || !strings.Contains(err.Error(), "only jobs of its own user") {
		t.Errorf("%v", err)
	}
}

// Files that gleaner inherited, and directories of somebody else, are not for tasks.
func TestUsersGetNothingOfOthers(t *testing.T) {
	j := newJailer(t, true)
	fd, err := unix.Open("/etc/shadow", unix.O_RDONLY, 0) // not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	j.submitAs(j.ann, shell("files", 1, fmt.Sprintf("cat <&%d 2>/dev/null && echo inherited; echo over; echo said > /dev/stderr", fd)))
	j.written(cluster.TaskID{Job: 1, Stage: "files"}, "over\n")
	j.until(1, "finish job-1")
	r := runSpec{User: j.bob, Users: j.users}
	theirs := filepath.Join(t.TempDir(), "theirs")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs, int(j.ann.UID), int(j.ann.GID)); err != nil {
		t.Fatal(err)
	}
	if err := r.makeOwn(theirs); err == nil {
		t.Error("bob's task uses a directory of ann")
	}
}
