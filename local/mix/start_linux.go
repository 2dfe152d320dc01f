package mix

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startOn starts a command, in a process group of its own, that may use the
// first cores only.
func startOn(cores int, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return onCores(cores, cmd.Start) // a child inherits the affinity of the thread that forks it
}

// onCores calls f on the first cores, or on any if cores is 0.
func onCores(cores int, f func() error) error {
	if cores == 0 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var allowed, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return err
	}
	for core, n := 0, 0; n < cores && core < len(allowed)*64; core++ {
		if allowed.IsSet(core) {
			first.Set(core)
			n++
		}
	}
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &allowed)
	return f()
}

// warm uses memory and frees it, so that the next process to use it does not wait
// for a hypervisor that has taken free memory away.
func warm(cores, size int) error {
	return onCores(cores, func() error {
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
		for i := 0; i < size; i += os.Getpagesize() {
			b[i] = 1
		}
		return unix.Munmap(b)
	})
}

// killGroup ends a command and all that it has started.
func killGroup(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }

// pressure is how long something was stalled for the disk since the machine
// started; negative if the kernel does not report it.
func pressure() time.Duration {
	text, err := os.ReadFile("/proc/pressure/io")
	if err != nil {
		return -1
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	_, total, found := bytes.Cut(line, []byte("total="))
	micro, err := strconv.ParseInt(string(total), 10, 64)
	if !found || err != nil {
		return -1
	}
	return time.Duration(micro) * time.Microsecond
}
