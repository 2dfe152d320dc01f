package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/local/proc"
)

// A process is the content of /proc/PID/stat.
type process struct {
	parent int
	ticks  uint64        // when it started
	cpu    time.Duration // used by it and by children that it has waited for
}

// The fields of /proc/PID/stat after the name in brackets, counted from 0.
const (
	statState  = 0
	statParent = 1
	statUtime  = 11
	statCstime = 14
	statStart  = 19
)

// processOf looks up a process; false if there is none, or only a zombie.
func processOf(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name may contain anything
	if len(fields) <= statStart || string(fields[statState]) == "Z" || string(fields[statState]) == "X" {
		return process{}, false
	}
	var p process
	p.parent, _ = strconv.Atoi(string(fields[statParent]))
	p.ticks, _ = strconv.ParseUint(string(fields[statStart]), 10, 64)
	for _, f := range fields[statUtime : statCstime+1] {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		p.cpu += time.Duration(n) * proc.Tick
	}
	return p, true
}

// alive reports whether the process s still exists.
func (s started) alive() bool {
	p, ok := processOf(s.Pid)
	return ok && p.ticks == s.Ticks
}

// pids lists the processes of the machine.
func pids() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// A family is all processes of the machine, by their parents.
type family struct {
	processes map[int]process
	children  map[int][]int
}

func families() family {
	f := family{map[int]process{}, map[int][]int{}}
	for _, pid := range pids() {
		if p, ok := processOf(pid); ok {
			f.processes[pid] = p
			f.children[p.parent] = append(f.children[p.parent], pid)
		}
	}
	return f
}

// below lists the children of a process, and theirs.
func (f family) below(pid int) []int {
	all := f.children[pid]
	for i := 0; i < len(all); i++ {
		all = append(all[:len(all):len(all)], f.children[all[i]]...)
	}
	return all
}

// used returns the CPU time that a supervisor and all below it have used, and
// the memory they hold now, without pages shared with a file.
func (f family) used(pid int) (cpu time.Duration, memory int64) {
	for _, pid := range append([]int{pid}, f.below(pid)...) {
		cpu += f.processes[pid].cpu
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
		if fields := bytes.Fields(text); len(fields) > 2 {
			resident, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
			memory += (resident - shared) * int64(os.Getpagesize())
		}
	}
	return cpu, memory
}

// killBelow kills all descendants of a supervisor and waits until they are gone,
// but no longer than patience. None can escape by losing its parent: it becomes the
// supervisor's own child.
func killBelow(pid int, patience time.Duration) error {
	return killAll(func() []int { return families().below(pid) }, patience)
}

// killMarked kills all processes that have a run's mark in their environment.
func killMarked(dir string, patience time.Duration) error {
	return killAll(func() []int { return marked(dir) }, patience)
}

func killAll(find func() []int, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		living := 0
		for _, pid := range find() {
			if _, ok := processOf(pid); ok {
				living++
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if living == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("local: %d processes do not die", living)
		}
	}
}

// killOrphans kills all children of this process until it has none: it adopts what its descendants leave behind, so that none is missed, also of those that
// fork and end faster than processes can be listed.
func killOrphans(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for tries := 0; ; tries++ {
		var err error
		for dead := 1; dead > 0 && err == nil; {
			dead, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
		if errors.Is(err, unix.ECHILD) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("local: processes that the task has left do not die")
		}
		all, err := children()
		if err != nil {
			all = families().children[os.Getpid()]
		}
		for _, pid := range all {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if tries > 1000 { // one waits for a broken disk
			time.Sleep(time.Millisecond)
		}
	}
}

// children are those of all threads of this process, if the kernel lists them.
func children() (all []int, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	for _, t := range threads {
		text, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			return nil, err
		}
		for field := range bytes.FieldsSeq(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all, nil
}

// hasten gives a supervisor, which has the low priority of its task, the usual
// priority, as far as this process may: on a busy machine it would otherwise take a
// second to notice that its task is dead.
func hasten(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	_ = os.WriteFile(dir+"/autogroup", []byte("0"), 0)
	threads, _ := os.ReadDir(dir + "/task")
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 0)
		}
	}
}

// markVariable names the run that a process belongs to.
const markVariable = "GLEANER_RUN_DIR"

func marked(dir string) []int {
	mark := []byte(markVariable + "=" + dir)
	var all []int
	for _, pid := range pids() {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			continue // gone, or of another user
		}
		for variable := range bytes.SplitSeq(text, []byte{0}) {
			if bytes.Equal(variable, mark) {
				all = append(all, pid)
			}
		}
	}
	return all
}
