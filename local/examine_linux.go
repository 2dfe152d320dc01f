package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/local/cgroup"
)

// A Health says how well a part of this machine serves a gleaner.
type Health string

// The healths.
const (
	Fine     Health = "fine"
	Degraded Health = "degraded" // gleaner works, with less than it could have
	Broken   Health = "broken"   // 'gleaner up' would not start
)

// A Finding is what was found out about a part of this machine.
type Finding struct {
	Part   string `json:"part"`
	Health Health `json:"health"`
	Says   string `json:"says"`
	Mend   string `json:"mend,omitempty"` // how to make it better
}

// Examine finds out what this machine allows. dir is the directory for the state of
// jobs; if it does not exist, the one above it is examined. Nothing is left behind.
func Examine(dir string) (all []Finding, isolated bool) {
	groups, isolated := examineGroups()
	for there := false; !there && filepath.Dir(dir) != dir; {
		_, err := os.Stat(dir)
		if there = !errors.Is(err, fs.ErrNotExist); !there {
			dir = filepath.Dir(dir)
		}
	}
	return append(groups, examineRefused(), examineUsers(), examinePressure(), examineFiles(), examineProcesses(), examineSpace(dir), examineSync(dir), examineScheduler(dir)), isolated
}

// ownGroup is how a user without root's rights gets control groups.
const ownGroup = "run it as root, or in a group of its own: systemd-run --user --scope -p Delegate=yes gleaner up"

// examineGroups makes a control group, as a gleaner that is up does.
func examineGroups() (found []Finding, isolated bool) {
	const part = "control groups"
	p, err := cgroup.Open(fmt.Sprintf("gleaner-examined-%d", os.Getpid()))
	if err != nil {
		return []Finding{{part, Degraded, fmt.Sprintf("none (%v): tasks run at the lowest priority, their memory and processes are not limited, and a burst is seen after a second or two", err), ownGroup}}, false
	}
	defer p.Remove()
	found = []Finding{{part, Fine, p.Kind() + ": each task has its own, with its limits", ""}}
	if isolated = p.Isolates(); isolated {
		return append(found, Finding{"isolation", Fine, "tasks get only idle cores (cpu.idle)", ""}), true
	}
	return append(found, Finding{"isolation", Degraded, "tasks have the lowest weight, but the kernel has no cpu.idle: the reserve is larger for it", "Linux 5.15 or later has it"}), false
}

func examinePressure() Finding {
	if _, err := os.ReadFile("/proc/pressure/cpu"); err != nil {
		return Finding{"pressure", Degraded, "the kernel does not say how long tasks wait for cores and disks; their load is learned from CPU time alone", "boot with psi=1"}
	}
	return Finding{"pressure", Fine, "the kernel says how long tasks wait for cores and disks", ""}
}

// Limits below which a machine is called degraded: enough for a few hundred tasks.
const (
	manyFiles     = 4096
	manyProcesses = 4096
)

func examineFiles() Finding {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	f := Finding{"open files", Fine, fmt.Sprintf("%d; two ninths of them are for tasks, one each", limit.Max), ""}
	if limit.Max < manyFiles {
		f.Health, f.Mend = Degraded, "raise the hard limit: ulimit -Hn, or LimitNOFILE= of a systemd unit"
	}
	return f
}

func examineProcesses() Finding {
	most := uint64(1 << 62)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := os.ReadFile(file)
		if n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
			most = min(most, n)
		}
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil && os.Geteuid() != 0 {
		most = min(most, limit.Cur)
	}
	f := Finding{"processes", Fine, fmt.Sprintf("%d, threads included", most), ""}
	if most < manyProcesses {
		f.Health, f.Mend = Degraded, "raise ulimit -u, or kernel.pid_max and kernel.threads-max"
	}
	return f
}

func examineSpace(dir string) Finding {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Finding{"space", Broken, fmt.Sprintf("%s: %v", dir, err), "name another directory with --data"}
	}
	if err := nearlyFull(&s); err != nil {
		return Finding{"space", Degraded, err.Error() + "; tasks that write wait", "free some, or name another directory with --data"}
	}
	return Finding{"space", Fine, fmt.Sprintf("%s are free in %s", (cluster.Bytes(s.Bavail) * cluster.Bytes(s.Bsize)).Text(), dir), ""}
}

// slowSync is a sync that makes the start of a task, which waits for some, slow to a user.
const slowSync = 50 * time.Millisecond

// examineSync measures how long a small file takes to be on disk.
func examineSync(dir string) Finding {
	temp, err := os.MkdirTemp(dir, ".gleaner-examined-")
	if err != nil {
		return Finding{"writing", Broken, err.Error(), "name another directory with --data, or run as its owner"}
	}
	defer os.RemoveAll(temp)
	var took []time.Duration
	for range 11 {
		begun := time.Now()
		if err := writeFile(filepath.Join(temp, "file"), "text"); err != nil {
			return Finding{"writing", Broken, err.Error(), "name another directory with --data"}
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	middle := took[len(took)/2]
	f := Finding{"writing", Fine, fmt.Sprintf("a small file is on disk in %s (the median of %d)", middle.Round(10*time.Microsecond), len(took)), ""}
	if middle > slowSync {
		f.Health, f.Says, f.Mend = Degraded, f.Says+"; the start of a task waits for some of them", "name a directory on a faster disk with --data"
	}
	return f
}

// scheduler is the one in use, in the list of a disk's schedulers.
var scheduler = regexp.MustCompile(`\[([a-z-]+)\]`)

func examineScheduler(dir string) Finding {
	const part = "disk scheduler"
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return Finding{part, Degraded, err.Error(), ""}
	}
	device := fmt.Sprintf("/sys/dev/block/%d:%d/", unix.Major(s.Dev), unix.Minor(s.Dev))
	for _, file := range []string{device + "queue/scheduler", device + "../queue/scheduler"} { // a disk, or a part of one
		text, _ := os.ReadFile(file)
		switch m := scheduler.FindSubmatch(text); {
		case m == nil:
		case string(m[1]) == "mq-deadline" || string(m[1]) == "bfq":
			return Finding{part, Fine, fmt.Sprintf("%s: tasks get the disk while it is otherwise idle", m[1]), ""}
		default:
			return Finding{part, Degraded, fmt.Sprintf("%s has no priorities: tasks compete with the primary for the disk", m[1]), "echo mq-deadline > " + filepath.Clean(file)}
		}
	}
	return Finding{part, Degraded, "not known for " + dir + ": tasks may compete with the primary for the disk", ""}
}
