package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"golang.org/x/sys/unix"
)

// Enter calls start in a way that a process which start forks on this thread
// is born in the group. It is given the descriptor of the directory to be born
// in (syscall.SysProcAttr's CgroupFD), or -1. The caller has locked the thread.
//
// Version 1 knows no such birth, but there a single thread may move in for the
// time of the fork and out again, and a child is born where its parent's thread is.
func (g Group) Enter(start func(fd int) error) error {
	fd := -1
	if g.V2 != "" {
		dir, err := os.Open(g.V2)
		if err != nil {
			return fmt.Errorf("cgroup: enter: %w", err)
		}
		defer dir.Close()
		fd = int(dir.Fd())
	}
	home := cgroup1.NestedPath("")
	tid := strconv.Itoa(unix.Gettid())
	moved := map[string]string{} // where to go back to
	back := func() (err error) {
		for dir := range moved {
			err = errors.Join(err, write(moved[dir], "tasks", tid))
		}
		return err
	}
	for name, dir := range g.V1 {
		below, err := home(name)
		if err == nil {
			err = write(dir, "tasks", tid)
		}
		if err != nil {
			return fmt.Errorf("cgroup: enter: %w", errors.Join(err, back()))
		}
		moved[dir] = filepath.Join(mount, string(name), below)
	}
	started := start(fd)
	if err := back(); err != nil {
		return fmt.Errorf("cgroup: leave: %w", errors.Join(err, started))
	}
	return started
}

// Processes lists who is in the group.
func (g Group) Processes() ([]int, error) {
	var all []int
	for _, dir := range g.dirs() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		for _, field := range bytes.Fields(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
				all = append(all, pid)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Kill ends everyone in the group and waits until they are gone, for as long
// as patience lasts.
func (g Group) Kill(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		pids, err := g.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroup: %d processes do not die", len(pids))
		}
		if write(g.V2, "cgroup.kill", "1") == nil {
			continue
		}
		// Nobody forks while frozen, so that nobody is left out.
		freezer := g.V1[cgroup1.Freezer]
		_ = write(freezer, "freezer.state", "FROZEN")
		if pids, err = g.Processes(); err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = write(freezer, "freezer.state", "THAWED")
	}
}

// OutOfMemory reports whether the kernel has killed somebody in the group
// because it reached its memory limit.
func (g Group) OutOfMemory() bool {
	for dir, file := range map[string]string{g.V1[cgroup1.Memory]: "memory.oom_control", g.V2: "memory.events"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if n, ok := field(text, "oom_kill"); dir != "" && err == nil && ok && n > 0 {
			return true
		}
	}
	return false
}

// Used gives the CPU time that all tasks together have used since the parent
// was made, ended ones too, and the memory they hold now. The page cache is
// not use: the kernel takes it back when somebody needs it.
func (p *Parent) Used() (cpu time.Duration, memory int64, err error) {
	if p.v2 {
		return p.usedV2()
	}
	text, err := os.ReadFile(filepath.Join(p.group.V1[cgroup1.Cpuacct], "cpuacct.usage"))
	if err != nil {
		return 0, 0, fmt.Errorf("cgroup: %w", err)
	}
	nanos, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("cgroup: cpuacct.usage: %w", err)
	}
	stat, err := os.ReadFile(filepath.Join(p.group.V1[cgroup1.Memory], "memory.stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("cgroup: %w", err)
	}
	anonymous, ok := field(stat, "total_rss")
	if !ok {
		return 0, 0, errors.New("cgroup: memory.stat does not tell total_rss")
	}
	shared, _ := field(stat, "total_shmem") // not before Linux 4.16
	return time.Duration(nanos), anonymous + shared, nil
}

func (p *Parent) usedV2() (cpu time.Duration, memory int64, err error) {
	stat, err := os.ReadFile(filepath.Join(p.group.V2, "cpu.stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("cgroup: %w", err)
	}
	micros, ok := field(stat, "usage_usec")
	if !ok {
		return 0, 0, errors.New("cgroup: cpu.stat does not tell usage_usec")
	}
	if stat, err = os.ReadFile(filepath.Join(p.group.V2, "memory.stat")); err != nil {
		return 0, 0, fmt.Errorf("cgroup: %w", err)
	}
	for _, name := range []string{"anon", "shmem", "kernel_stack", "slab_unreclaimable"} {
		n, _ := field(stat, name)
		memory += n
	}
	return time.Duration(micros) * time.Microsecond, memory, nil
}

// field finds the number behind a name in a file of lines of both.
func field(text []byte, name string) (int64, bool) {
	for line := range bytes.Lines(text) {
		if key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); ok && string(key) == name {
			n, err := strconv.ParseInt(string(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Pressure tells for how many seconds something in the group has waited for a
// resource, "cpu" or "io"; nil where the kernel does not tell.
func (g Group) Pressure(resource string) *float64 {
	if g.V2 == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(g.V2, resource+".pressure"))
	if err != nil {
		return nil
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	_, total, found := bytes.Cut(line, []byte("total="))
	micro, err := strconv.ParseFloat(string(total), 64)
	if !found || err != nil {
		return nil
	}
	seconds := micro / 1e6
	return &seconds
}
