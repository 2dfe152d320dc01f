package local

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that no task may make, whoever it runs as: those that
// change the machine for everyone, or reach into processes that are not its own.
var refused = []uint32{
	// What is mounted where.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, openTreeAttr,
	// The kernel itself.
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_BPF, unix.SYS_KEXEC_LOAD, kexecFileLoad,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_USERFAULTFD,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	// Keys, which belong to a user and not to a task.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// Other processes, and files outside of what a task can see.
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT,
}

// openTreeAttr is open_tree_attr of Linux 6.15, of the same number everywhere.
const openTreeAttr = 467

// attaching are the requests of ptrace that reach for a process which did not ask for
// it. A program that asks to be traced by its parent still can.
var attaching = []uint32{unix.PTRACE_ATTACH, unix.PTRACE_SEIZE}

// Where a filter finds the number of a call, its architecture and the low half of its
// first argument (struct seccomp_data, little-endian).
const (
	callNumber   = 0
	callArch     = 4
	callArgument = 16
)

// filter is the program that decides about each system call of a task. Calls of
// another architecture have other numbers, and are all refused.
func filter() []unix.SockFilter {
	const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	// unless skips the next instruction if what was loaded is not v.
	unless := func(v uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v, Jf: 1}
	}
	answer := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	program := []unix.SockFilter{
		load(callArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1}, answer(refuse),
		load(callNumber), {Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: foreignCalls, Jf: 1}, answer(refuse),
	}
	for _, call := range refused {
		program = append(program, unless(call), answer(refuse))
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PTRACE, Jt: 1}, answer(unix.SECCOMP_RET_ALLOW), load(callArgument))
	for _, request := range attaching {
		program = append(program, unless(request), answer(refuse))
	}
	return append(program, answer(unix.SECCOMP_RET_ALLOW))
}

// refuseCalls refuses these calls to this thread and to all that it starts, for good.
// It needs no_new_privs. On a machine without filters it does nothing: 'gleaner doctor'
// says so.
func refuseCalls() error {
	if !canRefuse() {
		return nil
	}
	program := filter()
	set := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, failed := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	if failed != 0 {
		return fmt.Errorf("local: refuse system calls: %w", failed)
	}
	return nil
}

// canRefuse reports whether the kernel has filters, for this architecture.
func canRefuse() bool {
	if arch == 0 {
		return false
	}
	// Without a program the kernel finds a bad address if it has filters at all.
	return errors.Is(unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0), unix.EFAULT)
}

func examineRefused() Finding {
	const part = "system calls"
	if canRefuse() {
		return Finding{part, Fine, fmt.Sprintf("%d are refused to tasks (mount, bpf, kexec, module loading, …), and tracing of processes that did not ask for it (seccomp)", len(refused)), ""}
	}
	return Finding{part, Degraded, "the kernel has no filters (seccomp), or not for this architecture: a task may make every system call that its user may", "a kernel with CONFIG_SECCOMP_FILTER, on amd64 or arm64"}
}
