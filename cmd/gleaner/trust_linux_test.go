package main

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nobody is a user that is neither root nor trusted.
const nobody = 65534

// TestRootTrustsOnlyItsOwn starts a gleaner as root with files that another user can
// change. It is refused, and nothing changes, until the command that the refusal names
// has been run.
func TestRootTrustsOnlyItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string) // a data directory that was used before
		fixes []string                       // the commands, without their --data
	}{
		{"a directory of another", func(t *testing.T, dir string) { give(t, dir) }, []string{"chown root DIR"}},
		{"a directory that all may write to", func(t *testing.T, dir string) { chmod(t, dir, 0o777) }, []string{"chmod 700 DIR"}},
		{"a directory that a group may write to", func(t *testing.T, dir string) { chmod(t, dir, 0o770) }, []string{"chmod 700 DIR"}},
		{"a sticky directory", func(t *testing.T, dir string) { chmod(t, dir, 0o777|fs.ModeSticky) }, []string{"chmod 700 DIR"}},
		{"a directory that was another's altogether", func(t *testing.T, dir string) {
			for _, name := range []string{"", "kv", "local", "local/jobs", "token"} {
				give(t, filepath.Join(dir, name))
			}
		}, []string{"chown root DIR", "chown -R root DIR/local", "rm DIR/token", "chown -R root DIR/kv"}},
		{"a parent of another", func(t *testing.T, dir string) { give(t, filepath.Dir(dir)) }, []string{"chown root PARENT"}},
		{"a parent that all may write to", func(t *testing.T, dir string) { chmod(t, filepath.Dir(dir), 0o777) }, []string{"chmod go-w PARENT"}},
		{"a sticky parent", func(t *testing.T, dir string) { chmod(t, filepath.Dir(dir), 0o777|fs.ModeSticky) }, nil},
		{"a store of another", func(t *testing.T, dir string) { give(t, filepath.Join(dir, "kv")) }, []string{"chown -R root DIR/kv"}},
		{"a file of the store of another", func(t *testing.T, dir string) { give(t, filepath.Join(dir, "kv", "GLEANER")) }, []string{"chown -R root DIR/kv/GLEANER"}},
		{"a job of another", func(t *testing.T, dir string) {
			job := filepath.Join(dir, "local", "jobs", "1")
			mkdir(t, job)
			give(t, job)
		}, []string{"chown -R root DIR/local/jobs/1"}},
		{"jobs that all may write to", func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "local", "jobs"), 0o777) }, []string{"chmod -R go-rwx DIR/local/jobs"}},
		{"jobs elsewhere", func(t *testing.T, dir string) {
			jobs, elsewhere := filepath.Join(dir, "local", "jobs"), t.TempDir()
			if err := os.Remove(jobs); err != nil {
				t.Fatal(err)
			}
			link(t, os.Symlink, elsewhere, jobs)
		}, []string{"rm DIR/local/jobs"}},
		{"a token of another", func(t *testing.T, dir string) { give(t, filepath.Join(dir, "token")) }, []string{"rm DIR/token"}},
		{"a token that others may read", func(t *testing.T, dir string) { chmod(t, filepath.Join(dir, "token"), 0o640) }, []string{"rm DIR/token"}},
		{"a token elsewhere", func(t *testing.T, dir string) {
			moveToken(t, dir, os.Symlink)
		}, []string{"rm DIR/token"}},
		{"a token with another name", func(t *testing.T, dir string) {
			moveToken(t, dir, os.Link)
		}, []string{"rm DIR/token"}},
		{"what an older gleaner left readable", func(t *testing.T, dir string) {
			for _, name := range []string{"", "kv", "local", "local/jobs"} {
				chmod(t, filepath.Join(dir, name), 0o755)
			}
			chmod(t, filepath.Join(dir, "kv", "GLEANER"), 0o644)
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data") // its parent is the test's own
			if code, text := tryUp(t, dir); code != exitOK {
				t.Fatalf("%d: %s", code, text)
			}
			tc.spoil(t, dir)
			names := strings.NewReplacer("DIR", dir, "PARENT", filepath.Dir(dir))
			for _, want := range tc.fixes {
				before := listing(t, dir)
				code, text := tryUp(t, dir)
				if code != exitBadInput || !strings.Contains(text, "'"+names.Replace(want)+"'") {
					t.Fatalf("%d: %s: it does not name '%s'", code, text, want)
				}
				if after := listing(t, dir); after != before {
					t.Errorf("a refusal changed %s to %s", before, after)
				}
				if out, err := exec.Command("sh", "-c", names.Replace(want)).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", want, err, out)
				}
			}
			if code, text := tryUp(t, dir); code != exitOK {
				t.Errorf("%d: %s", code, text)
			}
			nothingToRead(t, dir)
		})
	}
}

// tryUp starts a gleaner and stops it when it is up.
func tryUp(t *testing.T, dir string) (code int, text string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"up", "--data", dir, "--listen", "127.0.0.1:0", "--no-cgroups"}, nil, io.Discard, w)
		w.Close()
	}()
	var all strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		all.Write(buf[:n])
		if strings.Contains(all.String(), "msg=up ") {
			stop()
		}
		if err != nil {
			return <-ended, all.String()
		}
	}
}

// nothingToRead checks that everything below a data directory is its owner's alone.
func nothingToRead(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-printf", "%p %u %m %T@\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func give(t *testing.T, name string) {
	t.Helper()
	if err := os.Chown(name, nobody, nobody); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, name string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, how func(old, name string) error, old, name string) {
	t.Helper()
	if err := how(old, name); err != nil {
		t.Fatal(err)
	}
}

// moveToken puts the token elsewhere and leaves a link to it.
func moveToken(t *testing.T, dir string, how func(old, name string) error) {
	t.Helper()
	token, elsewhere := filepath.Join(dir, "token"), filepath.Join(filepath.Dir(dir), "elsewhere")
	if err := os.Rename(token, elsewhere); err != nil {
		t.Fatal(err)
	}
	link(t, how, elsewhere, token)
}

// Root opens no other user's store for any command: the owner of the directory could
// make it write through a link.
func TestRootReadsOnlyItsOwnHistory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	give(t, dir)
	var stderr strings.Builder
	if code := run(t.Context(), []string{"history", "sample", "--every", "1s", "--count", "1", "--data", dir}, nil, io.Discard, &stderr); code != exitBadInput || !strings.Contains(stderr.String(), "'chown root "+dir+"' fixes it") {
		t.Errorf("%d: %s", code, stderr.String())
	}
}

// Root does not run a program that others can change as a supervisor, and does not
// talk to another user's gleaner on a socket.
func TestOthersProgramsAndSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	home, err := os.MkdirTemp("", "gleaner-trust-") // where nobody can go
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	chmod(t, home, 0o755)
	program := copyProgram(t, home)
	for _, tc := range []struct {
		spoil func()
		want  string
	}{
		{func() { chmod(t, program, 0o777) }, "others may write to this program (mode 0777), which root runs; 'chmod go-w " + program + "' fixes it"},
		{func() { chmod(t, program, 0o755); give(t, program) }, "'chown root " + program + "' fixes it"},
	} {
		tc.spoil()
		out, err := exec.Command(program, "up", "--data", t.TempDir(), "--listen", "none").CombinedOutput()
		var exit *exec.ExitError
		if !asExit(err, &exit) || exit.ExitCode() != exitBadInput || !strings.Contains(string(out), tc.want) {
			t.Errorf("%v: %s: it does not say %q", err, out, tc.want)
		}
	}

	data := filepath.Join(home, "data")
	mkdir(t, data)
	give(t, data)
	theirs := exec.Command(program, "up", "--data", data, "--listen", "none")
	theirs.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := theirs.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = theirs.Process.Signal(os.Interrupt)
		_ = theirs.Wait()
	}()
	foreign := regexp.MustCompile(`^gleaner: --data: the gleaner that answers there runs as (nobody|#65534), not as root; ask it as that user: 'sudo -u (nobody|#65534) gleaner …'\n$`)
	var said string
	for deadline := time.Now().Add(time.Minute); !foreign.MatchString(said); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it says %q", said)
		}
		var stderr strings.Builder
		if code := run(t.Context(), []string{"status", "--data", data}, nil, io.Discard, &stderr); code == exitOK {
			t.Fatal("root asks a gleaner of another user")
		}
		said = stderr.String()
	}
	ask := exec.Command(program, "status", "--data", data)
	ask.SysProcAttr = theirs.SysProcAttr
	if out, err := ask.CombinedOutput(); err != nil {
		t.Errorf("its own user gets %v: %s", err, out)
	}
}

func asExit(err error, exit **exec.ExitError) bool {
	var ok bool
	*exit, ok = err.(*exec.ExitError)
	return ok
}

// copyProgram copies gleaner to where other users can run it. A separate process
// copies: a child that is forked here meanwhile would briefly hold the file open for
// writing, and the kernel does not execute such a file.
func copyProgram(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "gleaner")
	if out, err := exec.Command("cp", self, name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	chmod(t, name, 0o755)
	return name
}

// An access list can allow others that the mode does not show, in place of the user's
// own group.

func TestAccessListsAreSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	chmod(t, dir, 0o770)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	writes := func() bool {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return othersWrite(dir, info)
	}
	if writes() {
		t.Error("a user's own group counts as others")
	}
	list := []byte{2, 0, 0, 0} // of version 2: tag, permissions, id
	for _, e := range [][3]uint32{{1, 7, ^uint32(0)}, {2, 7, 4343}, {4, 0, ^uint32(0)}, {16, 7, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(e[1]))
		list = binary.LittleEndian.AppendUint32(list, e[2])
	}
	if err := unix.Setxattr(dir, "system.posix_acl_access", list, 0); err != nil {
		t.Skipf("there are no access lists here: %v", err)
	}
	if !writes() {
		t.Error("user 4343 may write, and nobody sees it")
	}
	chmod(t, dir, 0o700)
	if writes() {
		t.Error("chmod 700 does not mend it")
	}
}
