package local

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// A remover removes a directory with all that is below it, however deep that is, and has never more than two directories open: tasks make trees of tens of thousands
// of levels, and paths longer than the system takes. A directory that is not empty is moved up to the top first, where its own turn comes. It follows no link.
type remover struct {
	top    *os.File
	prefix string // of the names that directories get at the top
	moved  int    // directories so far
	left   []int  // those that are still there
	own    bool   // modes of directories may keep their owner out, who is not root
}

// rounds is how often a directory is gone through that others still write to.
const rounds = 10

// removeDeep removes a directory, if it exists.
func removeDeep(dir string) error {
	top, err := openDir(unix.AT_FDCWD, dir)
	if errors.Is(err, unix.EACCES) && os.Geteuid() != 0 {
		_ = os.Chmod(dir, 0o700)
		top, err = openDir(unix.AT_FDCWD, dir)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer top.Close()
	r := remover{top: top, prefix: fmt.Sprintf(".gleaner-%x-", rand.Uint64()), own: os.Geteuid() != 0}
	for range rounds {
		if err = r.all(); err != nil {
			break
		}
		if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}
	return fmt.Errorf("remove %s: %w", dir, err)
}

// all empties the top once.
func (r *remover) all() error {
	if _, err := r.top.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := r.clear(r.top); err != nil {
		return err
	}
	for len(r.left) > 0 {
		name := r.name(r.left[len(r.left)-1])
		r.left = r.left[:len(r.left)-1]
		if err := r.empty(name); err != nil {
			return err
		}
		if err := unix.Unlinkat(int(r.top.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// empty empties a directory at the top. Directories that it moves there have their turn later.
func (r *remover) empty(name string) error {
	sub, err := openDir(int(r.top.Fd()), name)
	if err != nil {
		return err
	}
	defer sub.Close()
	for range rounds { // a directory that changes while it is read may hide names
		if n, err := r.clear(sub); err != nil || n == 0 {
			return err
		}
		if _, err := sub.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// clear goes through the names of a directory once, and tells how many there were that are not at the top to stay.
func (r *remover) clear(dir *os.File) (n int, err error) {
	if r.own {
		_ = dir.Chmod(0o700)
	}
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			if dir == r.top && len(name) > len(r.prefix) && name[:len(r.prefix)] == r.prefix {
				continue
			}
			n++
			if err := r.remove(int(dir.Fd()), name); err != nil {
				return n, err
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// remove removes what has a name in a directory, or moves it up if it is a directory that is not empty.
func (r *remover) remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.ENOTEMPTY):
		return err
	}
	if r.own {
		_ = unix.Fchmodat(dir, name, 0o700, 0)
	}
	if err := unix.Renameat(dir, name, int(r.top.Fd()), r.name(r.moved)); err != nil {
		return err
	}
	r.left = append(r.left, r.moved)
	r.moved++
	return nil
}

func (r *remover) name(n int) string { return fmt.Sprint(r.prefix, n) }

// openDir opens a directory and no link to one.
func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
