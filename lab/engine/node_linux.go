package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const groups = "/sys/fs/cgroup"

// CanNode returns an error if no real node can run here.
func CanNode() error {
	if os.Geteuid() != 0 {
		return errors.New("engine: a real node needs root, for namespaces and control groups")
	}
	made, err := makeGroups("gleaner-lab-probe")
	removeGroups(made)
	if err != nil {
		return fmt.Errorf("engine: a real node needs control groups: %w", err)
	}
	return nil
}

// apart has a command run in mount and pid namespaces of its own.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
}

// makeGroups makes a control group in every hierarchy, and returns what it made.
func makeGroups(name string) (made []string, err error) {
	if _, err := os.Stat(filepath.Join(groups, "cgroup.controllers")); err == nil {
		return makeGroup2(name)
	}
	for _, controller := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd", "unified"} {
		at := filepath.Join(groups, controller)
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
			continue // not every kernel has it
		}
		for part := range strings.SplitSeq(name, "/") {
			above := at
			at = filepath.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return made, err
			}
			made = append(made, at)
			if controller == "cpuset" { // a new one has no cores
				if err := errors.Join(copyFile(at+"/cpuset.cpus", above+"/cpuset.cpus"), copyFile(at+"/cpuset.mems", above+"/cpuset.mems")); err != nil {
					return made, err
				}
			}
		}
	}
	if len(made) == 0 {
		return nil, errors.New("the kernel offers none")
	}
	return made, nil
}

// makeGroup2 makes a control group of version 2, with all controllers down to it.
func makeGroup2(name string) (made []string, err error) {
	at := groups
	for part := range strings.SplitSeq(name, "/") {
		controllers, err := os.ReadFile(filepath.Join(at, "cgroup.controllers"))
		if err != nil {
			return made, err
		}
		all := "+" + strings.Join(strings.Fields(string(controllers)), " +")
		if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte(all), 0o644); err != nil {
			return made, err
		}
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return made, err
		}
		made = append(made, at)
	}
	return made, nil
}

// removeGroups removes groups with all below them; false if processes are left in them.
func removeGroups(made []string) bool {
	for _, group := range slices.Backward(made) {
		var all []string
		_ = filepath.WalkDir(group, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, name)
			}
			return nil
		})
		for _, dir := range slices.Backward(all) {
			_ = syscall.Rmdir(dir) // one with processes stays, and so do those above
		}
	}
	return !slices.ContainsFunc(made, func(group string) bool { _, err := os.Stat(group); return err == nil })
}
