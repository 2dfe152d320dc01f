package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/cluster"
	"gleaner/local/cgroup"
	"gleaner/local/proc"
)

// Options of a World. Dir and Server must be given.
type Options struct {
	Dir    string // of the state of all jobs
	Server cluster.ServerID
	Log    *slog.Logger  // nil: nothing is logged
	Every  time.Duration // between samples; 0: a second
	Plain  bool          // use no control groups
	Equal  bool          // tasks run at the usual priority, not at the lowest
	Most   int           // how many tasks may run at once, each of which holds a file; 0: any number
	// Users is a directory in which tasks of other users than this process's have their
	// scratch directories. Empty: their jobs are refused.
	Users string
	// Sample returns what is used. Nil: this machine is read.
	Sample func() (Sample, error)
	// Short is called with the part that has to wait because the machine is short
	// of files, memory, processes or disk, and why; with a nil error when the part
	// continues. Nil: it is not called.
	Short func(of string, because error)
	// Glance returns the CPU that the primary used since the last call. It is
	// called many times between two samples while tasks run. Nil: this machine is
	// read if Sample is nil and there are control groups; else there are no glances.
	Glance func() (cluster.MilliCPU, error)
}

// A World is this machine.
type World struct {
	Options
	server cluster.Server
	groups *cgroup.Parent // nil if there are none
	// isolated says that the kernel gives tasks only idle cores.
	isolated   bool
	guardGrace time.Duration // see the constant
	lock       *os.File
	meter      *meter // nil if Sample was given
	ticks      *time.Ticker
	wake       chan struct{} // something is in the queue
	joined     bool          // Next has returned that event
	closed     chan struct{}
	turns      chan struct{} // taken by tasks that are being started

	// Used only by Next:
	left  int // ticks until the next report
	watch watch
	news  []cluster.Event // that Next returns first

	submitting sync.Mutex     // jobs are queued in the order of their numbers
	removing   sync.WaitGroup // of what jobs have left

	mu     sync.Mutex
	jobs   map[cluster.JobID]*cluster.Job // that have not ended
	last   cluster.JobID
	tasks  map[cluster.TaskID]*task // that run
	idle   []*supervisor            // that have nothing to do, the last one last
	lost   map[cluster.TaskID]int   // how many runs of a task were lost with their supervisors, by its first attempt
	queue  []cluster.Event
	sample Sample
	spent  time.Duration // CPU time of tasks that have ended, if there are no groups
}

// ErrHeld is returned by Open when another process has opened the directory.
var ErrHeld = errors.New("another process uses the directory")

// Open continues the work in the directory where it was left. Supervisors are this
// program: with the argument "task" it must call Supervise.
func Open(o Options) (*World, error) {
	o.Every = cmp.Or(o.Every, time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	w := &World{Options: o, guardGrace: guardGrace, wake: make(chan struct{}, 1), closed: make(chan struct{}), turns: make(chan struct{}, atOnce), jobs: map[cluster.JobID]*cluster.Job{}, tasks: map[cluster.TaskID]*task{}, lost: map[cluster.TaskID]int{}}
	if err := w.measure(); err != nil {
		return nil, err
	}
	if err := makeDir(filepath.Join(o.Dir, jobsDir)); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if err := w.hold(); err != nil {
		return nil, err
	}
	if err := w.begin(); err != nil {
		return nil, errors.Join(err, w.lock.Close())
	}
	w.left = w.perReport()
	w.ticks = time.NewTicker(o.Every / time.Duration(w.left))
	return w, nil
}

// perReport is the number of ticks from one report to the next.
func (w *World) perReport() int {
	if w.Glance == nil {
		return 1
	}
	return glances
}

// measure finds out the size of this machine.
func (w *World) measure() error {
	memory, err := proc.ReadMemory()
	w.server = cluster.Server{ID: w.Server, CPU: cluster.MilliCPU(runtime.NumCPU()) * cluster.Core, Memory: memory.Total}
	return err
}

// hold makes sure that no other process controls the same tasks.
func (w *World) hold() error {
	f, err := os.OpenFile(filepath.Join(w.Dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return fmt.Errorf("local: %s: %w", w.Dir, ErrHeld)
	}
	w.lock = f
	return nil
}

// begin reads the past and queues the first events for the core: the machine, its
// use, the past jobs, and then the running tasks from the oldest to the youngest.
func (w *World) begin() error {
	if !w.Plain {
		w.openGroups()
	}
	past, adopted, toCancel, err := w.scan()
	if err != nil {
		return err
	}
	w.sweep(adopted)
	if w.Sample == nil {
		if err := w.read(); err != nil {
			return err
		}
		time.Sleep(min(w.Every, time.Second/4)) // the first sample covers this time
	}
	use, err := w.report()
	if err != nil {
		return err
	}
	w.watch.told = use.Use[0].Primary.CPU
	w.tell(cluster.Event{Kind: cluster.ServerJoined, Server: &w.server})
	if _, err := os.Stat(filepath.Join(w.Dir, drainedFile)); err == nil {
		w.tell(cluster.Event{Kind: cluster.ServerDrained, On: w.Server})
	}
	w.tell(use)
	w.tell(cluster.Event{Kind: cluster.Resumed, Past: past})
	slices.SortFunc(adopted, func(a, b *task) int { return a.run.At.Compare(b.run.At) })
	for _, t := range adopted {
		w.Log.Info("adopted", "task", t.run.Task.String())
		w.tell(cluster.Event{Kind: cluster.TaskStarted, Task: t.run.Task, On: w.Server, Request: t.run.Request})
		go w.adopt(t)
		if w.jobs[t.run.Task.Job] == nil {
			w.kill(t, "its job has ended", true)
		}
	}
	for _, id := range toCancel {
		w.tell(cluster.Event{Kind: cluster.JobCancelled, ID: id})
	}
	return nil
}

// parentName is the name of the control group of a directory's tasks.
func parentName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	return fmt.Sprintf("gleaner-%x", sha256.Sum256([]byte(abs)))[:len("gleaner-")+12], err
}

// read opens the meter of this machine.
func (w *World) read() (err error) {
	if w.groups == nil { // all processes would have to be read, many times a second
		w.meter, err = newMeter(runtime.NumCPU(), w.harvest, nil)
	} else if w.meter, err = newMeter(runtime.NumCPU(), w.harvest, w.groups.CPU); err == nil {
		w.Glance = w.meter.glance
	}
	if err == nil {
		w.Sample = w.meter.sample
	}
	return err
}

// openGroups makes the control group of this directory's tasks.
func (w *World) openGroups() {
	name, err := parentName(w.Dir)
	if err == nil {
		w.groups, err = cgroup.Open(name)
	}
	if err != nil {
		w.groups = nil
		w.Log.Warn("no control groups: tasks run as process groups at the lowest priority, and their memory is not limited", "because", err)
		return
	}
	if w.Equal {
		w.groups.Hurry() // and never relax
	}
	w.isolated = w.groups.Isolates() // before any Hurry
	w.Log.Info("control groups", "version", w.groups.Kind())
}

// sweep removes the control groups that an earlier process left behind.
func (w *World) sweep(adopted []*task) {
	if w.groups == nil {
		return
	}
	alive := map[string]bool{}
	for _, t := range adopted {
		alive[groupName(t.dir)] = true
	}
	if n := w.groups.Sweep(func(name string) bool { return alive[name] }); n > 0 {
		w.Log.Info("removed control groups that were left behind", "count", n)
	}
}

// Machine is this machine as a server.
func (w *World) Machine() cluster.Server { return w.server }

// Confined reports whether tasks run in control groups.
func (w *World) Confined() bool { return w.groups != nil }

// Isolated reports whether the kernel gives tasks only idle cores.
func (w *World) Isolated() bool { return w.isolated }

// Last is the last sample.
func (w *World) Last() Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sample
}

// tell queues an event.
func (w *World) tell(ev cluster.Event) {
	w.mu.Lock()
	if ev.At.IsZero() {
		ev.At = time.Now()
	}
	w.queue = append(w.queue, ev)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// samples names a part of this world that may have to wait.
const samples = "the sampling of use"

// Next waits for the next event. Once the machine has joined, a report that is due
// goes first: what the primary needs does not wait behind other events.
func (w *World) Next(ctx context.Context) (cluster.Event, error) {
	for {
		if w.joined {
			select {
			case <-w.ticks.C:
				if err := w.look(); err != nil && !w.short(samples, err) {
					return cluster.Event{}, err
				}
			default:
			}
		}
		if len(w.news) > 0 {
			ev := w.news[0]
			w.news = w.news[1:]
			return ev, nil
		}
		if ev, ok := w.pop(); ok {
			w.joined = true // no other event comes before that
			return ev, nil
		}
		select {
		case <-ctx.Done():
			return cluster.Event{}, ctx.Err()
		case <-w.ticks.C:
			if err := w.look(); err != nil && !w.short(samples, err) {
				return cluster.Event{}, err
			}
		case <-w.wake:
		}
	}
}

// look is called at every tick. A report is due after some ticks, and at once when
// the primary has risen. Then there are two reports of the same time: what it used
// since the last one, so that reports still add up to its total use, and what it
// uses now, by which guards decide.
func (w *World) look() error {
	w.left--
	now, rose, err := w.glance()
	if err != nil || w.left > 0 && !rose {
		return err
	}
	w.left = w.perReport()
	ev, err := w.report()
	if err != nil {
		return err
	}
	w.short(samples, nil)
	w.news = append(w.news, ev)
	primary := ev.Use[0].Primary
	if rose && now > primary.CPU {
		primary.CPU = now
		ev.Use = []cluster.Use{{On: w.Server, Primary: primary}}
		w.news = append(w.news, ev)
	}
	w.watch.told = primary.CPU
	return nil
}

// glance reads the primary's CPU, if there is a task to kill for it.
func (w *World) glance() (now cluster.MilliCPU, rose bool, err error) {
	w.mu.Lock()
	idle := len(w.tasks) == 0
	w.mu.Unlock()
	if w.Glance == nil || idle {
		w.watch.seen = 0
		return 0, false, nil
	}
	use, err := w.Glance()
	if err != nil {
		return 0, false, err
	}
	now, rose = w.watch.glance(use)
	return now, rose, nil
}

func (w *World) pop() (cluster.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return cluster.Event{}, false
	}
	ev := w.queue[0]
	w.queue = w.queue[1:]
	return ev, true
}

// report takes a sample.
func (w *World) report() (cluster.Event, error) {
	w.checkDisk()
	w.dismiss(idleTime)
	s, err := w.Sample()
	if err != nil {
		return cluster.Event{}, err
	}
	w.mu.Lock()
	w.sample = s
	w.mu.Unlock()
	return cluster.Event{At: time.Now(), Kind: cluster.UseReported, Use: []cluster.Use{{On: w.Server, Primary: s.Primary}}}, nil
}

// harvest is what tasks use.
func (w *World) harvest() (cpu time.Duration, memory int64, err error) {
	if w.groups != nil {
		return w.groups.Used()
	}
	w.mu.Lock()
	cpu = w.spent
	var supervisors []int
	for _, t := range w.tasks {
		if pid := t.supervisor(); pid != 0 {
			supervisors = append(supervisors, pid)
			cpu -= t.before
		}
	}
	w.mu.Unlock()
	if len(supervisors) == 0 {
		return cpu, 0, nil
	}
	all := families()
	for _, pid := range supervisors {
		c, m := all.used(pid)
		cpu, memory = cpu+c, memory+m
	}
	return cpu, memory, nil
}

// Do begins to carry out an action.
func (w *World) Do(a cluster.Action) error {
	switch a.Kind {
	case cluster.StartTask:
		w.start(a)
	case cluster.KillTask:
		w.mu.Lock()
		t := w.tasks[a.Task]
		w.mu.Unlock()
		if t != nil {
			w.kill(t, a.Reason, a.Gently)
		}
	case cluster.FinishJob:
		return w.finish(a)
	}
	return nil
}

func (w *World) start(a cluster.Action) {
	w.mu.Lock()
	j := w.jobs[a.Task.Job]
	if j == nil || a.On != w.Server {
		w.mu.Unlock()
		w.tell(cluster.Event{Kind: cluster.TaskNotStarted, Task: a.Task, On: a.On, Reason: "there is no such job or server"})
		return
	}
	st := &j.Stages[slices.IndexFunc(j.Stages, func(s cluster.Stage) bool { return s.Name == a.Task.Stage })]
	now := time.Now()
	env := st.Env
	if item, has := st.Item(a.Task.Index); has {
		env = append(slices.Clone(env), "GLEANER_ITEM="+item)
	}
	command, tooLong := st.CommandOf(a.Task.Index)
	t := newTask(runPath(w.Dir, a.Task), runSpec{Task: a.Task, Job: j.Name, At: now, Request: a.Request, Command: command, Env: env, Dir: st.Dir,
		Tasks: st.Tasks, Processes: st.Processes, Output: st.Output, Time: st.Time, Grace: st.Grace, Equal: w.Equal, User: j.User, Users: w.Users})
	w.tasks[a.Task] = t
	w.mu.Unlock()
	w.tell(cluster.Event{At: now, Kind: cluster.TaskStarted, Task: a.Task, On: a.On, Request: a.Request})
	if tooLong != nil {
		go w.over(t, fmt.Errorf("could not be started: %w", tooLong))
		return
	}
	go w.live(t)
}

func (w *World) finish(a cluster.Action) error {
	w.mu.Lock()
	known := w.jobs[a.ID] != nil
	delete(w.jobs, a.ID)
	maps.DeleteFunc(w.lost, func(id cluster.TaskID, _ int) bool { return id.Job == a.ID })
	w.mu.Unlock()
	if !known {
		return nil
	}
	w.dropShared(a.ID)
	how := ended{At: time.Now(), Reason: a.Reason, Cancelled: a.Cancelled, Account: a.Account}
	dir := jobPath(w.Dir, a.ID)
	keep := func() error { return writeFile(filepath.Join(dir, endedFile), how) }
	of := "the end of " + a.ID.String()
	err := keep()
	if w.short(of, err) {
		go w.insist(of, keep) // if gleaner stops before, the next world ends the job again
		return nil
	}
	if spoilt(err) {
		w.Log.Warn("the end of a job cannot be kept: its directory was changed", "job", a.ID.String(), "because", err)
		return makeDir(dir) // so that its number is not used again
	}
	if err != nil {
		return fmt.Errorf("local: end %s: %w", a.ID, err)
	}
	return nil
}

// Submit accepts a job and gives it a number. When it returns, the job will be run,
// whatever happens to this process.
func (w *World) Submit(spec *cluster.Job) (cluster.JobID, error) {
	if err := w.accepts(spec); err != nil {
		return 0, err
	}
	w.submitting.Lock()
	defer w.submitting.Unlock()
	w.mu.Lock()
	id := w.last + 1
	w.mu.Unlock()
	numbered := *spec
	numbered.ID = id
	now := time.Now()
	dir := jobPath(w.Dir, id)
	err := makeDir(dir)
	if err == nil {
		err = writeFile(filepath.Join(dir, jobFile), submitted{now, &numbered})
	}
	if err != nil {
		return 0, fmt.Errorf("local: keep %s: %w", id, err)
	}
	w.mu.Lock()
	w.last = id
	w.jobs[id] = &numbered
	w.mu.Unlock()
	w.tell(cluster.Event{At: now, Kind: cluster.JobSubmitted, Job: &numbered})
	return id, nil
}

// Cancel ends a job. When it returns, no task of it will be started any more,
// whatever happens to this process.
func (w *World) Cancel(id cluster.JobID) error {
	if err := w.goesOn(id); err != nil {
		return err
	}
	keep := func() error { return writeFile(filepath.Join(jobPath(w.Dir, id), cancelledFile), kill{"cancelled"}) }
	err := keep()
	if err != nil && !Lacks(err) {
		return fmt.Errorf("local: cancel %s: %w", id, err)
	}
	w.tell(cluster.Event{Kind: cluster.JobCancelled, ID: id})
	for end := time.Now().Add(cancelRoom); Lacks(err) && time.Now().Before(end); err = keep() {
		time.Sleep(cancelRoom / 100) // its tasks, which may take the room, are ending
	}
	if err != nil {
		return fmt.Errorf("local: %s is cancelled, but that cannot be stored: %w", id, err)
	}
	return nil
}

// goesOn returns an error if a job has ended, or never was.
func (w *World) goesOn(id cluster.JobID) error {
	w.mu.Lock()
	known, last := w.jobs[id] != nil, w.last
	w.mu.Unlock()
	switch {
	case id < 1 || id > last:
		return cluster.ErrNoJob
	case !known:
		return cluster.ErrEnded
	}
	return nil
}

// cancelRoom is how long a cancel waits for room on the disk.
const cancelRoom = 20 * time.Second

// Pause makes a job start no more tasks; those that run go on. It stays so, whatever
// happens to this process.
func (w *World) Pause(id cluster.JobID) error {
	return w.note(id, cluster.JobPaused, func(name string) error { return writeFile(name, kill{"paused"}) })
}

// Continue ends a pause.
func (w *World) Continue(id cluster.JobID) error {
	return w.note(id, cluster.JobContinued, forget)
}

// note changes whether a job is paused, on disk first.
func (w *World) note(id cluster.JobID, kind cluster.EventKind, keep func(name string) error) error {
	if err := w.goesOn(id); err != nil {
		return err
	}
	if err := keep(filepath.Join(jobPath(w.Dir, id), pausedFile)); err != nil {
		return fmt.Errorf("local: %s: %s: %w", kind, id, err)
	}
	w.tell(cluster.Event{Kind: kind, ID: id})
	return nil
}

// forget removes a file, if it is there, for good.
func forget(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// Drain makes this machine start no more tasks; those that run go on. It stays so,
// whatever happens to this process, until Refill is called.
func (w *World) Drain() error {
	if err := writeFile(filepath.Join(w.Dir, drainedFile), kill{"drained"}); err != nil {
		return fmt.Errorf("local: drain: %w", err)
	}
	w.tell(cluster.Event{Kind: cluster.ServerDrained, On: w.Server})
	return nil
}

// Refill ends a drain.
func (w *World) Refill() error {
	if err := forget(filepath.Join(w.Dir, drainedFile)); err != nil {
		return fmt.Errorf("local: end a drain: %w", err)
	}
	w.tell(cluster.Event{Kind: cluster.ServerOpened, On: w.Server})
	return nil
}

// Publish sends the class of this machine to the core.
func (w *World) Publish(classes []cluster.Class) {
	w.tell(cluster.Event{Kind: cluster.ClassesPublished, Classes: classes})
}

// Output opens what a run of a task has written, to stdout or stderr.
func (w *World) Output(id cluster.TaskID, stderr bool) (*os.File, error) {
	if strings.ContainsRune(id.Stage, filepath.Separator) {
		return nil, os.ErrNotExist
	}
	name := stdoutFile
	if stderr {
		name = stderrFile
	}
	return os.Open(filepath.Join(runPath(w.Dir, id), name))
}

// Stop ends all tasks, gently, waits until they are gone, and returns them. They are run
// again when the directory is next opened. Do must not be called any more.
func (w *World) Stop(reason string) []cluster.TaskID {
	w.mu.Lock()
	var all []*task
	for _, t := range w.tasks {
		all = append(all, t)
	}
	w.mu.Unlock()
	var ids []cluster.TaskID
	for _, t := range all {
		w.kill(t, reason, true)
	}
	for _, t := range all {
		<-t.done
		w.mu.Lock()
		goesOn := w.jobs[t.run.Task.Job] != nil
		w.mu.Unlock()
		if goesOn && !t.how.ok() {
			ids = append(ids, t.run.Task)
		}
	}
	slices.SortFunc(ids, func(a, b cluster.TaskID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

// Close releases the directory. Running tasks go on.
func (w *World) Close() error {
	w.ticks.Stop()
	close(w.closed)
	w.dismiss(0)
	w.removing.Wait()
	if w.meter != nil {
		_ = w.meter.stat.Close()
	}
	if w.groups != nil {
		_ = w.groups.Remove() // fails while a task is in it

	}
	return w.lock.Close()
}
