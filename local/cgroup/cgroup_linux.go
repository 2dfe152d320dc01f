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
	"sync"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"

	"gleaner/cluster"
)

const (
	mount     = "/sys/fs/cgroup"
	lowestV1  = 2 // cpu.shares
	lowestV2  = 1 // cpu.weight
	usualV1   = 1024
	usualV2   = 100
	mixedRoot = mount + "/unified"
)

// controllers of version 1 that are used, if the kernel has them.
var controllers = []cgroup1.Name{cgroup1.Cpu, cgroup1.Cpuacct, cgroup1.Memory, cgroup1.Freezer, cgroup1.Pids}

// A Group is one control group: a directory for every controller of version 1,
// and one of version 2.
type Group struct {
	V1 map[cgroup1.Name]string `json:"v1,omitempty"`
	V2 string                  `json:"v2,omitempty"`
}

// A Parent is the group that holds all tasks.
type Parent struct {
	name  string
	group Group
	v2    bool // controllers are of version 2

	mu      sync.Mutex
	hurried int
	usage   *os.File // of CPU; nil until it is asked for
	text    [1024]byte
}

// Open makes the group name, or takes over an existing one. It fails if the kernel
// has no control groups or this process may not use them.
func Open(name string) (*Parent, error) {
	p := &Parent{name: name, v2: cgroups.Mode() == cgroups.Unified}
	var err error
	switch cgroups.Mode() {
	case cgroups.Unavailable:
		return nil, errors.New("cgroup: the kernel offers none")
	case cgroups.Unified:
		err = p.openV2()
	case cgroups.Hybrid:
		if err = p.openV1(); err == nil {
			p.group.V2 = filepath.Join(mixedRoot, name) // for cgroup.kill, which misses no process
			if os.MkdirAll(p.group.V2, 0o755) != nil {
				p.group.V2 = ""
			}
		}
	default:
		err = p.openV1()
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup: make %s: %w", name, err)
	}
	p.group.limitProcesses(mostProcesses() / 2)
	return p, p.probe()
}

// mostProcesses is how many processes and threads the kernel allows; 0 if not
// known. All tasks together may have half of them, so that everyone else can still
// start some.
func mostProcesses() int {
	most := 0
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := os.ReadFile(file)
		if n, bad := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && bad == nil && (most == 0 || n < most) {
			most = n
		}
	}
	return most
}

func (p *Parent) openV1() (err error) {
	p.group.V1, err = newV1(p.name)
	p.group.Relax()
	return err
}

// openV2 makes the group at the root or, if this process may only use its own part
// of the tree, there.
func (p *Parent) openV2() error {
	err := p.makeV2()
	if err == nil {
		return nil
	}
	own, failed := vacate()
	if failed != nil {
		return errors.Join(err, failed)
	}
	p.name = filepath.Join(own, p.name)
	return p.makeV2()
}

func (p *Parent) makeV2() error {
	manager, err := cgroup2.NewManager(mount, filepath.Join("/", p.name), &cgroup2.Resources{CPU: &cgroup2.CPU{}, Memory: &cgroup2.Memory{}})
	if err != nil {
		return err
	}
	p.group.V2 = filepath.Join(mount, p.name)
	p.group.Relax()
	_ = manager.ToggleControllers([]string{"pids"}, cgroup2.Enable) // not every kernel has it
	_ = write(p.group.V2, "cgroup.subtree_control", "+pids")
	return errors.Join(manager.ToggleControllers([]string{"cpu", "memory"}, cgroup2.Enable), write(p.group.V2, "cgroup.subtree_control", "+cpu +memory"))
}

// vacate moves this process out of its group into one below: only a group without
// processes can have controllers for its children.
func vacate() (own string, err error) {
	if own, err = cgroup2.NestedGroupPath(""); err != nil {
		return "", err
	}
	leaf := filepath.Join(mount, own, "gleaner-main")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return "", err
	}
	return own, write(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

// probe checks that threads can be moved in and out.
func (p *Parent) probe() error {
	g, err := p.New("probe", Limits{Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}})
	if err != nil {
		return err
	}
	return errors.Join(g.Enter(func(int) error { return nil }), g.Remove())
}

// Kind says which version is in use.
func (p *Parent) Kind() string {
	switch {
	case p.v2:
		return "v2"
	case p.group.V2 != "":
		return "v1 and v2"
	}
	return "v1"
}

// Limits are what one task may use.
type Limits struct {
	Request   cluster.Resources // CPU is a weight, memory a limit; 0: memory is not limited
	Processes int               // and threads, at most; 0: not limited
}

// New makes a group for one task, or takes over an existing one. Processes are limited only
// if the kernel counts them.
func (p *Parent) New(name string, limits Limits) (Group, error) {
	g := p.child(name)
	err := p.make(g, limits.Request)
	if err != nil {
		_ = g.Remove() // as much as was made
		return g, fmt.Errorf("cgroup: make %s: %w", name, err)
	}
	g.limitProcesses(limits.Processes)
	return g, nil
}

func (p *Parent) make(g Group, request cluster.Resources) error {
	for _, dir := range g.dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := p.setWeight(g, int64(request.CPU)); err != nil {
		return err
	}
	if request.Memory > 0 {
		return g.LimitMemory(request.Memory)
	}
	return nil
}

// setWeight sets the share of the CPU that a group gets among others.
func (p *Parent) setWeight(g Group, milli int64) error {
	if p.v2 {
		return write(g.V2, "cpu.weight", strconv.FormatInt(min(max(lowestV2, milli*usualV2/int64(cluster.Core)), 10000), 10))
	}
	return write(g.V1[cgroup1.Cpu], "cpu.shares", strconv.FormatInt(max(lowestV1, milli*usualV1/int64(cluster.Core)), 10))
}

// child is the group name below p.
func (p *Parent) child(name string) Group {
	var g Group
	if p.group.V2 != "" {
		g.V2 = filepath.Join(p.group.V2, name)
	}
	if len(p.group.V1) > 0 {
		g.V1 = map[cgroup1.Name]string{}
	}
	for controller, dir := range p.group.V1 {
		g.V1[controller] = filepath.Join(dir, name)
	}
	return g
}

// limitProcesses limits the number of processes and threads to n, if the kernel
// counts them.
func (g Group) limitProcesses(n int) {
	if n > 0 {
		_ = write(g.V1[cgroup1.Pids], "pids.max", strconv.Itoa(n))
		_ = write(g.V2, "pids.max", strconv.Itoa(n))
	}
}

// newV1 makes a group below this process's own in every hierarchy, so that the
// limits of this process apply to its tasks too.
func newV1(name string) (map[cgroup1.Name]string, error) {
	path := cgroup1.NestedPath(name)
	group, err := cgroup1.New(path, &specs.LinuxResources{}, cgroup1.WithHierarchy(hierarchy))
	if err != nil {
		return nil, err
	}
	dirs := map[cgroup1.Name]string{}
	for _, s := range group.Subsystems() {
		below, err := path(s.Name())
		if err != nil {
			return nil, err
		}
		dirs[s.Name()] = filepath.Join(mount, string(s.Name()), below)
	}
	return dirs, nil
}

// hierarchy is the controllers that are used.
func hierarchy() ([]cgroup1.Subsystem, error) {
	all, err := cgroup1.Default()
	if err != nil {
		return nil, err
	}
	used := slices.DeleteFunc(all, func(s cgroup1.Subsystem) bool { return !slices.Contains(controllers, s.Name()) })
	for _, needed := range []cgroup1.Name{cgroup1.Cpu, cgroup1.Cpuacct, cgroup1.Memory} {
		if !slices.ContainsFunc(used, func(s cgroup1.Subsystem) bool { return s.Name() == needed }) {
			return nil, fmt.Errorf("no controller for %s", needed)
		}
	}
	return used, nil
}

// Remove removes the group, with those that its processes made below it. It must
// have no processes. A missing group counts as removed.
func (g Group) Remove() error { return g.each(removeAll) }

func (g Group) each(do func(dir string) error) (failed error) {
	for _, dir := range g.dirs() {
		if err := do(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
	}
	return failed
}

func removeAll(dir string) error {
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range below(dir) {
		if err := removeAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// below names the groups in the one in dir.
func below(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Sweep removes the groups of tasks that an earlier process left behind, and
// returns how many: all below p without processes for which keep is false. All
// groups below p belong to its tasks.
func (p *Parent) Sweep(keep func(name string) bool) (removed int) {
	left := map[string]bool{}
	for _, dir := range p.group.dirs() {
		for _, name := range below(dir) {
			left[name] = !keep(name)
		}
	}
	for name, old := range left {
		g := p.child(name)
		if pids, err := g.Processes(); old && err == nil && len(pids) == 0 && g.Remove() == nil {
			removed++
		}
	}
	return removed
}

// Remove removes the parent, if no task's group is left in it.
func (p *Parent) Remove() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.usage.Close() // even if it was never opened
	p.usage = nil
	return p.group.each(os.Remove)
}

// Hurry gives the group the usual CPU weight until relax is called, so that killed
// processes get the CPU to exit on a busy machine.
func (p *Parent) Hurry() (relax func()) {
	p.hurry(1)
	return sync.OnceFunc(func() { p.hurry(-1) })
}

func (p *Parent) hurry(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.hurried
	p.hurried += more
	switch {
	case before == 0:
		p.group.Hurry()
	case p.hurried == 0:
		p.group.Relax()
	}
}

// Hurry gives the group the usual CPU weight.
func (g Group) Hurry() {
	g.setIdle("0")
	_ = write(g.V1[cgroup1.Cpu], "cpu.shares", fmt.Sprint(usualV1))
	_ = write(g.V2, "cpu.weight", fmt.Sprint(usualV2))
}

// Relax gives the group the lowest CPU weight, and the idle class if the kernel has it
// (Linux 5.15).
func (g Group) Relax() {
	_ = write(g.V1[cgroup1.Cpu], "cpu.shares", fmt.Sprint(lowestV1))
	_ = write(g.V2, "cpu.weight", fmt.Sprint(lowestV2))
	g.setIdle("1")
}

// Isolates reports whether the kernel gives tasks only idle cores, and takes them
// away at once when another process needs them.
func (p *Parent) Isolates() bool {
	dir := p.group.V2
	if !p.v2 {
		dir = p.group.V1[cgroup1.Cpu]
	}
	text, err := os.ReadFile(filepath.Join(dir, "cpu.idle"))
	return err == nil && string(bytes.TrimSpace(text)) == "1"
}

func (g Group) setIdle(idle string) {
	_ = write(g.V1[cgroup1.Cpu], "cpu.idle", idle)
	_ = write(g.V2, "cpu.idle", idle)
}

// At is the group that somebody else made at path below root, where the control groups are
// mounted; false if there is none. Of version 2 beside version 1 nothing is used: the
// processes need not be there.
func At(root, path string) (Group, bool) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		g := Group{V2: filepath.Join(root, path)}
		return g, isDir(g.V2)
	}
	g := Group{V1: map[cgroup1.Name]string{}}
	for _, name := range controllers {
		if dir := filepath.Join(root, string(name), path); isDir(dir) {
			g.V1[name] = dir
		}
	}
	return g, len(g.V1) > 0
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// LimitMemory limits what the processes of the group hold together.
func (g Group) LimitMemory(memory cluster.Bytes) error {
	dir, file := g.V2, "memory.max"
	if len(g.V1) > 0 {
		dir, file = g.V1[cgroup1.Memory], "memory.limit_in_bytes"
	}
	return write(dir, file, strconv.FormatInt(int64(memory), 10))
}

func (g Group) dirs() []string {
	var all []string
	for _, name := range controllers {
		if dir := g.V1[name]; dir != "" {
			all = append(all, dir)
		}
	}
	if g.V2 != "" {
		all = append(all, g.V2)
	}
	return all
}

// write changes a control file; it never creates one.
func write(dir, file, value string) error {
	if dir == "" {
		return fs.ErrNotExist
	}
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
