package proc

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Usage is who used the CPU of this machine for some time, in cores.
type Usage struct {
	Cores  float64 // that the machine has
	Self   float64 // this process, and the processes that it started and that have ended
	Chosen float64
	Others float64
	// SelfWaited and ChosenWaited are how long a thread waited for a core on average,
	// each time that it was ready to run; 0 if the kernel does not tell.
	SelfWaited, ChosenWaited time.Duration
}

// A Stopwatch measures who uses the CPU: this process, chosen processes, or others.
type Stopwatch struct {
	proc   fs.FS
	chosen []int
	begin  reading
}

// A reading is what was used up to a time.
type reading struct {
	machine CPU
	cores   int
	self    time.Duration
	chosen  map[int]time.Duration
	threads map[string]thread // by the path of their file
}

// A thread is how often it ran, and how long it waited for a core before.
type thread struct {
	times  int64
	waited time.Duration
}

// Watch starts a stopwatch. It needs Linux.
func Watch(chosen []int) (*Stopwatch, error) { return watch(os.DirFS("/proc"), chosen) }

func watch(proc fs.FS, chosen []int) (*Stopwatch, error) {
	s := &Stopwatch{proc: proc, chosen: chosen}
	var err error
	s.begin, err = s.read()
	return s, err
}

// Usage is who used the CPU since the start; nothing, if no tick has passed. What a chosen process used is left to the
// others if it has ended.
func (s *Stopwatch) Usage() (Usage, error) {
	now, err := s.read()
	if err != nil {
		return Usage{}, err
	}
	ticks := float64(now.machine.Total()) - float64(s.begin.machine.Total())
	if ticks <= 0 {
		return Usage{}, nil
	}
	cores := func(d time.Duration) float64 { return max(0, float64(d/Tick)*float64(now.cores)/ticks) }
	u := Usage{Cores: float64(now.cores), Self: cores(now.self - s.begin.self)}
	for pid, used := range now.chosen {
		u.Chosen += cores(used - s.begin.chosen[pid])
	}
	u.SelfWaited, u.ChosenWaited = s.begin.waited(now, func(p string) bool { return p == "self" }), s.begin.waited(now, func(p string) bool { return p != "self" })
	u.Others = max(0, cores(now.machine.Busy()-s.begin.machine.Busy())-u.Self-u.Chosen)
	return u, nil
}

func (s *Stopwatch) read() (r reading, err error) {
	stat, err := fs.ReadFile(s.proc, "stat")
	if err != nil {
		return r, fmt.Errorf("proc: %w", err)
	}
	if r.machine, err = ParseStat(stat); err != nil {
		return r, err
	}
	r.cores = bytes.Count(stat, []byte("\ncpu")) // a line each
	own, children, err := processTime(s.proc, "self")
	if err != nil {
		return r, err
	}
	r.self, r.chosen, r.threads = own+children, map[int]time.Duration{}, map[string]thread{}
	r.addThreads(s.proc, "self")
	for _, pid := range s.chosen {
		if used, _, err := processTime(s.proc, strconv.Itoa(pid)); err == nil {
			r.chosen[pid] = used
			r.addThreads(s.proc, strconv.Itoa(pid))
		}
	}
	return r, nil
}

// addThreads reads the threads of a process, as far as the kernel tells of them.
func (r *reading) addThreads(proc fs.FS, pid string) {
	files, _ := fs.Glob(proc, pid+"/task/*/schedstat") // the pattern is good
	for _, file := range files {
		text, err := fs.ReadFile(proc, file)
		f := strings.Fields(string(text))
		if err != nil || len(f) < 3 {
			continue // it has ended
		}
		waited, bad := strconv.ParseInt(f[1], 10, 64)
		times, worse := strconv.ParseInt(f[2], 10, 64)
		if bad == nil && worse == nil {
			r.threads[file] = thread{times, time.Duration(waited)}
		}
	}
}

// waited is how long threads waited for a core on average, since a reading.
func (r *reading) waited(now reading, whose func(pid string) bool) time.Duration {
	var sum thread
	for file, t := range now.threads {
		pid, _, _ := strings.Cut(file, "/")
		if before := r.threads[file]; whose(pid) {
			sum.times, sum.waited = sum.times+t.times-before.times, sum.waited+t.waited-before.waited
		}
	}
	return sum.waited / time.Duration(max(sum.times, 1))
}

// processTime is the CPU time of a process, and of its children that have ended.
func processTime(proc fs.FS, pid string) (own, children time.Duration, err error) {
	stat, err := fs.ReadFile(proc, path.Join(pid, "stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("proc: %w", err)
	}
	// The name is in brackets, and may hold brackets and spaces itself.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const first = 11 // utime, stime, cutime, cstime
	if len(fields) < first+4 {
		return 0, 0, fmt.Errorf("proc: /proc/%s/stat has %d fields after the name", pid, len(fields))
	}
	var ticks [4]int64
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[first+i], 10, 56); err != nil {
			return 0, 0, fmt.Errorf("proc: /proc/%s/stat: %q is not a number of ticks", pid, fields[first+i])
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * Tick, time.Duration(ticks[2]+ticks[3]) * Tick, nil
}

// Listeners are the processes that listen at an address of this machine, of those that
// this user may look at.
func Listeners(at netip.AddrPort) []int { return listeners(os.DirFS("/proc"), at) }

func listeners(proc fs.FS, at netip.AddrPort) (pids []int) {
	sockets := map[string]bool{}
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		text, _ := fs.ReadFile(proc, file) // a kernel without IPv6 has no second
		for _, inode := range listening(text, at) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	files, _ := fs.Glob(proc, "[0-9]*/fd/*") // the pattern is good
	for _, file := range files {
		// Another user's files cannot be read.
		if to, err := fs.ReadLink(proc, file); err == nil && sockets[to] {
			pid, _ := strconv.Atoi(file[:strings.IndexByte(file, '/')]) // by the pattern
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// listening finds the sockets in /proc/net/tcp that listen at an address, or at its port
// on all addresses.
func listening(text []byte, at netip.AddrPort) (inodes []string) {
	const listen = "0A"
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != listen {
			continue
		}
		if local, ok := parseAddress(f[1]); ok && local.Port() == at.Port() && (local.Addr() == at.Addr().Unmap() || local.Addr().IsUnspecified()) {
			inodes = append(inodes, f[9])
		}
	}
	return inodes
}

// parseAddress reads an address of /proc/net/tcp: words of four bytes in the order of a
// little-endian machine, and the port.
func parseAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	ip, err := hex.DecodeString(host)
	n, bad := strconv.ParseUint(port, 16, 16)
	if err != nil || bad != nil || len(ip)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}
