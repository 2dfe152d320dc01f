package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gleaner/cluster"
)

// usersTasks is the directory, below that for users, in which tasks of other users
// have their scratch directories: they cannot look into the data directory.
const usersTasks = "tasks"

// other reports whether a user is not the one whom this process runs as.
func other(u cluster.User) bool { return u.Name != "" && int(u.UID) != os.Geteuid() }

// private are the directories of the run and of its job, which only its user may enter.
func (r *runSpec) private(dir string) (scratch, shared string) {
	if !other(r.User) {
		return filepath.Join(dir, scratchDir), filepath.Join(filepath.Dir(dir), sharedDir)
	}
	job := usersJob(r.Users, r.Task.Job)
	return filepath.Join(job, filepath.Base(dir)), filepath.Join(job, sharedDir)
}

// usersJob is the directory of a job of another user. It is root's, so that nobody can
// put links in the place of what is in it.
func usersJob(users string, id cluster.JobID) string {
	return filepath.Join(users, usersTasks, id.String())
}

// makePrivate makes them, for the run's user alone.
func (r *runSpec) makePrivate(dirs ...string) error {
	if !other(r.User) {
		for _, dir := range dirs {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		return nil
	}
	for _, dir := range []string{filepath.Join(r.Users, usersTasks), filepath.Dir(dirs[0])} {
		if err := makePassage(dir); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := r.makeOwn(dir); err != nil {
			return err
		}
	}
	return nil
}

// makePassage makes a directory that everyone may pass through, whatever the umask is.
func makePassage(dir string) error {
	err := os.Mkdir(dir, 0o711)
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// makeOwn makes a directory of the run's user. One that is there must be theirs.
func (r *runSpec) makeOwn(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return os.Lchown(dir, int(r.User.UID), int(r.User.GID))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if owner == 0 && info.IsDir() { // another task of the job is about to give it away, or was killed before
		return os.Lchown(dir, int(r.User.UID), int(r.User.GID))
	}
	if !info.IsDir() || owner != r.User.UID {
		return fmt.Errorf("%s is not a directory of %s", dir, r.User.Name)
	}
	return nil
}

// UsersDir is the directory for tasks of other users below that for all users of this
// machine: each data directory has one of its own, since both may have a job 1.
func UsersDir(users, dir string) (string, error) {
	if users == "" {
		return "", nil
	}
	name, err := parentName(dir)
	if err != nil {
		return "", err
	}
	own := filepath.Join(users, name)
	return own, makePassage(own)
}

// become is who the command runs as: nil for the user of this process.
func (r *runSpec) become() (*syscall.Credential, error) {
	if !other(r.User) {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("only root can run it as %s", r.User.Name)
	}
	as := &syscall.Credential{Uid: r.User.UID, Gid: r.User.GID}
	account, err := user.LookupId(strconv.Itoa(int(r.User.UID)))
	if err != nil {
		return as, nil // a user without an account has no other groups
	}
	groups, err := account.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("find the groups of %s: %w", r.User.Name, err)
	}
	for _, text := range groups {
		if gid, err := strconv.ParseUint(text, 10, 32); err == nil {
			as.Groups = append(as.Groups, uint32(gid))
		}
	}
	return as, nil
}

// environment is what the command starts from. Other users do not get that of this
// process, which may hold secrets.
func (r *runSpec) environment() (env []string, home string) {
	if !other(r.User) {
		return os.Environ(), ""
	}
	home, shell := "/", "/bin/sh"
	if account, err := user.LookupId(strconv.Itoa(int(r.User.UID))); err == nil && filepath.IsAbs(account.HomeDir) {
		home = account.HomeDir
	}
	env = []string{"HOME=" + home, "USER=" + r.User.Name, "LOGNAME=" + r.User.Name, "SHELL=" + shell, "PATH=" + usersPath}
	for _, name := range []string{"LANG", "TZ"} {
		if value, has := os.LookupEnv(name); has {
			env = append(env, name+"="+value)
		}
	}
	return env, home
}

// usersPath is where commands of other users are looked for: this process's path may
// lead to places that are not theirs.
const usersPath = "/usr/local/bin:/usr/bin:/bin"

// found is the program of a command of another user.
func (r *runSpec) found() (string, error) {
	name := r.Command[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(usersPath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// accepts returns an error if the tasks of a job cannot run as its user.
func (w *World) accepts(job *cluster.Job) error {
	if other(job.User) && (os.Geteuid() != 0 || w.Users == "") {
		return fmt.Errorf("%w, and not those of %s", cluster.ErrOtherUser, job.User.Name)
	}
	return nil
}

func examineUsers() Finding {
	const part = "users"
	if os.Geteuid() == 0 {
		return Finding{part, Fine, "tasks can run as the users who submit them: 'gleaner up --users'", ""}
	}
	return Finding{part, Degraded, "not root: only jobs of this user are accepted, and run as this user", "run it as root, with --users"}
}
