package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gleaner/input"
)

// Two users are trusted: root, and the user of this process. The files that gleaner
// obeys or executes must be theirs, and nobody else may change them: otherwise others
// could act as these users. The refusal names the command that fixes it.

// trustData makes sure that nobody else can change the content of a data directory
// or replace it (as sshd's StrictModes), and returns its path without symbolic links.
// A missing directory is made, for us alone.
func trustData(dir string) (string, error) {
	there, dir, err := realPath(dir)
	if err != nil {
		return "", input.Errorf("--data", "%s cannot be used: %v", dir, reason(err))
	}
	if there == dir {
		there = filepath.Dir(dir)
	}
	for parent := there; ; parent = filepath.Dir(parent) {
		if err := trustParent(parent, dir); err != nil {
			return "", err
		}
		if parent == "/" {
			break
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", input.Errorf("--data", "%s cannot be used: %v", dir, reason(err))
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return "", err
	case !trustedOwner(info):
		return "", input.Errorf("--data", "%s belongs to %s, who could run commands as %s; '%s' fixes it, or name another directory", dir, owner(info), me(), chown("", dir))
	case othersWrite(dir, info):
		return "", input.Errorf("--data", "others may write to %s (mode %04o), and so could run commands as %s; '%s' fixes it", dir, mode(info), me(), "chmod 700 "+quoted(dir))
	}
	return dir, nil
}

// realPath returns the path of a file without symbolic links, and the part of it that
// exists.
func realPath(name string) (there, real string, err error) {
	name, err = filepath.Abs(name)
	if err != nil {
		return "", name, err
	}
	there, missing := name, ""
	for {
		found, err := filepath.EvalSymlinks(there)
		switch {
		case err == nil:
			return found, filepath.Join(found, missing), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", name, err
		}
		there, missing = filepath.Dir(there), filepath.Join(filepath.Base(there), missing)
	}
}

// trustParent makes sure that nobody else can rename entries of a directory on the
// path to dir. In a sticky one, such as /tmp, nobody can rename entries of others.
func trustParent(parent, dir string) error {
	info, err := os.Stat(parent)
	if err != nil {
		return err
	}
	switch {
	case !trustedOwner(info):
		return input.Errorf("--data", "%s belongs to %s, who could put another directory in the place of %s; '%s' fixes it, or name a directory elsewhere", parent, owner(info), dir, chown("", parent))
	case othersWrite(parent, info) && info.Mode()&fs.ModeSticky == 0:
		return input.Errorf("--data", "others may write to %s (mode %04o), and so could put another directory in the place of %s; '%s' fixes it", parent, mode(info), dir, "chmod go-w "+quoted(parent))
	}
	return nil
}

// trustStore makes sure that the metadata in a data directory is ours, and that
// nobody else can read it.
func trustStore(dir string) error {
	_, err := os.Lstat(filepath.Join(kvDir(dir), "GLEANER"))
	return trustBelow(dir, err == nil, "kv", "kv/*") // anything else stays as it is
}

// trustAll does so for everything that a gleaner which is up obeys or executes.
func trustAll(dir string) error {
	if err := trustSelf(); err != nil {
		return err
	}
	if err := trustBelow(dir, true, "local", "local/lock", "local/jobs", "local/jobs/*"); err != nil {
		return err
	}
	if _, err := readSecret(tokenPath(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// trustBelow makes sure that the files of some patterns below a data directory are
// ours. With private, files that an older gleaner left readable to others are closed
// to them.
func trustBelow(dir string, private bool, patterns ...string) error {
	for _, pattern := range patterns {
		names := []string{filepath.Join(dir, pattern)}
		if parent, all := strings.CutSuffix(pattern, "/*"); all {
			entries, err := os.ReadDir(filepath.Join(dir, parent))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			names = nil
			for _, e := range entries {
				names = append(names, filepath.Join(dir, parent, e.Name()))
			}
		}
		for _, name := range names {
			if err := trustOne(name, private); err != nil {
				return err
			}
		}
	}
	return nil
}

// trustOne checks a file in a directory that only we can write to, so that it cannot
// change afterwards.
func trustOne(name string, private bool) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return input.Errorf("--data", "%s is a symbolic link, which gleaner never makes; 'rm %s' fixes it", name, quoted(name))
	case !trustedOwner(info):
		return input.Errorf("--data", "%s belongs to %s, who could make gleaner act as %s; if all in it can be trusted '%s' fixes it, else '%s'", name, owner(info), me(), chown("-R", name), "rm -r "+quoted(name))
	case othersWrite(name, info):
		return input.Errorf("--data", "others may write to %s (mode %04o); if all in it can be trusted '%s' fixes it, else '%s'", name, mode(info), "chmod -R go-rwx "+quoted(name), "rm -r "+quoted(name))
	case private && info.Mode().Perm()&0o077 != 0:
		return os.Chmod(name, info.Mode().Perm()&0o700)
	}
	return nil
}

// trustSelf makes sure that nobody else can change this program, which also
// supervises tasks, if root runs it.
func trustSelf() error {
	if os.Geteuid() != 0 {
		return nil
	}
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	info, err := os.Stat("/proc/self/exe") // the running program, even if its file was replaced
	switch {
	case err != nil:
		return err
	case !trustedOwner(info):
		return input.Errorf(name, "this program belongs to %s, who could make it anything that root then runs; '%s' fixes it", owner(info), chown("", name))
	case othersWrite(name, info):
		return input.Errorf(name, "others may write to this program (mode %04o), which root runs; '%s' fixes it", mode(info), "chmod go-w "+quoted(name))
	}
	return nil
}

// readSecret reads a file that nobody else can read or write, or could have put there.
func readSecret(name string) ([]byte, error) {
	fixes := "'rm " + quoted(name) + "' fixes it: a new one will be made"
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, input.Errorf(name, "this token is a symbolic link; %s", fixes)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, input.Errorf(name, "this token is not a file; %s", fixes)
	case !trustedOwner(info):
		return nil, input.Errorf(name, "this token belongs to %s; %s", owner(info), fixes)
	case info.Mode().Perm()&0o077 != 0:
		return nil, input.Errorf(name, "others may read this token (mode %04o); %s", mode(info), fixes)
	case stat(info).Nlink > 1:
		return nil, input.Errorf(name, "this token has another name elsewhere; %s", fixes)
	}
	return io.ReadAll(io.LimitReader(f, 1<<10))
}

// trustPeer makes sure that the process that answers on a socket is of a trusted user.
func trustPeer(conn net.Conn) error {
	peer, err := peerOf(conn)
	if err != nil {
		return err
	}
	if trusted(peer.Uid) {
		return nil
	}
	name := userName(peer.Uid)
	return input.Errorf("--data", "the gleaner that answers there runs as %s, not as %s; ask it as that user: 'sudo -u %s gleaner …'", name, me(), name)
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func trustedOwner(info fs.FileInfo) bool { return trusted(stat(info).Uid) }

// othersWrite reports whether anyone but the owner may write. A user's own group,
// which has the user's number, counts as the user, except root's group, and except
// if there is an access list: then the group's bits are those of everyone it names.
func othersWrite(name string, info fs.FileInfo) bool {
	others := fs.FileMode(0o022)
	if s := stat(info); s.Uid == s.Gid && s.Uid != 0 && !hasAccessList(name) {
		others = 0o002
	}
	return info.Mode().Perm()&others != 0
}

func hasAccessList(name string) bool {
	n, err := unix.Getxattr(name, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

func mode(info fs.FileInfo) uint32 { return stat(info).Mode & 0o7777 }

func owner(info fs.FileInfo) string { return userName(stat(info).Uid) }

func me() string { return userName(uint32(os.Geteuid())) }

// userName is the name of a user, or #1000 if there is none, as sudo accepts it.
func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		return u.Username
	}
	return fmt.Sprintf("#%d", uid)
}

// chown is the command that makes a file ours.
func chown(flag, name string) string {
	return strings.Join(strings.Fields("chown "+flag+" "+strings.TrimPrefix(me(), "#")), " ") + " " + quoted(name)
}

// reason drops the path from an error that is reported with it already.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
