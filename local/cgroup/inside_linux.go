package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"golang.org/x/sys/unix"
)

// Enter calls start such that a process which start forks on this thread begins in
// the group. start gets the descriptor of the group's directory
// (syscall.SysProcAttr's CgroupFD), or -1. The caller has locked the thread.
//
// Version 1 has no CgroupFD, but there a single thread can enter the group for the
// fork and leave again, and a child begins in the group of its parent's thread.
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
	home := ownV1()
	tid := strconv.Itoa(unix.Gettid())
	var moved []cgroup1.Name
	back := func() (err error) {
		for _, name := range moved {
			err = errors.Join(err, write(home[name], "tasks", tid))
		}
		return err
	}
	for name, dir := range g.V1 {
		if err := write(dir, "tasks", tid); err != nil {
			return fmt.Errorf("cgroup: enter: %w", errors.Join(err, back()))
		}
		moved = append(moved, name)
	}
	started := start(fd)
	if err := back(); err != nil {
		return fmt.Errorf("cgroup: leave: %w", errors.Join(err, started))
	}
	return started
}

// ownV1 is the groups that this process was in at first: to look them up takes longer than
// to start a command. A controller that has none is missing.
var ownV1 = sync.OnceValue(func() map[cgroup1.Name]string {
	path, own := cgroup1.NestedPath(""), map[cgroup1.Name]string{}
	for _, name := range controllers {
		if below, err := path(name); err == nil {
			own[name] = filepath.Join(mount, string(name), below)
		}
	}
	return own
})

// Processes lists the processes in the group and in those below it.
func (g Group) Processes() ([]int, error) {
	var all []int
	for _, dir := range g.dirs() {
		pids, err := processes(dir)
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		all = append(all, pids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func processes(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []int
	for _, field := range bytes.Fields(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			all = append(all, pid)
		}
	}
	for _, name := range below(dir) {
		pids, err := processes(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
}

// alive is how many processes the group has, with those below it. A process of another
// namespace has no number here, but version 2 says that there is one.
func (g Group) alive() (int, error) {
	pids, err := g.Processes()
	if err != nil || len(pids) > 0 || len(g.V1) > 0 {
		return len(pids), err
	}
	text, err := os.ReadFile(filepath.Join(g.V2, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	n, _ := field(text, "populated")
	return int(n), err
}

// Kill kills all processes in the group and in those below it, and waits until they are
// gone, but no longer than patience.
func (g Group) Kill(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		alive, err := g.alive()
		if err != nil || alive == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroup: %d processes do not die", alive)
		}
		if write(g.V2, "cgroup.kill", "1") == nil {
			continue
		}
		// Frozen processes do not fork, so that none is missed.
		freezer := g.V1[cgroup1.Freezer]
		_ = write(freezer, "freezer.state", "FROZEN")
		pids, err := g.Processes()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = write(freezer, "freezer.state", "THAWED")
	}
}

// OutOfMemory reports whether the kernel has killed a process because the group
// reached its memory limit.
func (g Group) OutOfMemory() bool {
	for dir, file := range map[string]string{g.V1[cgroup1.Memory]: "memory.oom_control", g.V2: "memory.events"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if n, ok := field(text, "oom_kill"); dir != "" && err == nil && ok && n > 0 {
			return true
		}
	}
	return false
}

// Used returns CPU and the memory that tasks hold now.
func (p *Parent) Used() (cpu time.Duration, memory int64, err error) {
	if cpu, err = p.CPU(); err == nil {
		memory, err = p.group.memory()
	}
	return cpu, memory, err
}

// Used returns the CPU time that the processes of the group and of those below it have used
// since it was made, ended ones included, and the memory they hold now.
func (g Group) Used() (cpu time.Duration, memory int64, err error) {
	dir := g.V2
	if len(g.V1) > 0 {
		dir = g.V1[cgroup1.Cpuacct]
	}
	if cpu, err = CPUOf(dir); err == nil {
		memory, err = g.memory()
	}
	return cpu, memory, err
}

// CPU returns the CPU time that all tasks together have used since the parent
// was made, ended ones included. It may be called many times a second: its file
// stays open, and nothing is allocated.
func (p *Parent) CPU() (time.Duration, error) {
	dir, file := p.group.V1[cgroup1.Cpuacct], "cpuacct.usage"
	if p.v2 {
		dir, file = p.group.V2, "cpu.stat"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usage == nil {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			return 0, fmt.Errorf("cgroup: %w", err)
		}
		p.usage = f
	}
	n, err := p.usage.ReadAt(p.text[:], 0)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("cgroup: %w", err)
	}
	return parseCPU(file, p.text[:n])
}

// CPUOf returns the CPU time that the processes of any group have used since it was made, by the
// group's directory.
func CPUOf(dir string) (time.Duration, error) {
	for _, file := range []string{"cpu.stat", "cpuacct.usage"} { // version 1 may have both, one without the time
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		if used, err := parseCPU(file, text); err == nil {
			return used, nil
		}
	}
	return 0, fmt.Errorf("cgroup: %s tells no CPU time", dir)
}

// parseCPU reads the CPU time in cpu.stat of version 2 or in cpuacct.usage of version 1.
func parseCPU(file string, text []byte) (time.Duration, error) {
	if file == "cpu.stat" {
		micros, ok := field(text, "usage_usec")
		if !ok {
			return 0, errors.New("cgroup: cpu.stat has no usage_usec")
		}
		return time.Duration(micros) * time.Microsecond, nil
	}
	nanos, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cgroup: cpuacct.usage: %w", err)
	}
	return time.Duration(nanos), nil
}

// memory is what processes hold now, without the page cache, which the kernel frees when
// memory is needed.
func (g Group) memory() (int64, error) {
	dir, names := g.V1[cgroup1.Memory], []string{"total_rss", "total_shmem"} // the second not before Linux 4.16
	if len(g.V1) == 0 {
		dir, names = g.V2, []string{"anon", "shmem", "kernel_stack", "slab_unreclaimable"}
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, fmt.Errorf("cgroup: %w", err)
	}
	if _, ok := field(stat, names[0]); !ok {
		return 0, fmt.Errorf("cgroup: memory.stat has no %s", names[0])
	}
	var held int64
	for _, name := range names {
		n, _ := field(stat, name)
		held += n
	}
	return held, nil
}

// field finds the number after a name in lines of name and number.
func field(text []byte, name string) (int64, bool) {
	for line := range bytes.Lines(text) {
		if key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); ok && string(key) == name {
			n, err := strconv.ParseInt(string(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Pressure is for how many seconds something in the group has waited for a
// resource, "cpu" or "io"; nil if the kernel does not report it.
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
