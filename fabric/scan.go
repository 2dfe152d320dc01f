package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gleaner/curator"
	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
	"gleaner/kv"
)

// A curation scans the maps when it is time, and has the tasks that follow.
type curation struct {
	front   *Front
	curator *curator.Curator
	scan    *upkeep.Scan
	learner *learner      // nil where thresholds decide
	turn    chan struct{} // held by the one who scans

	mu       sync.Mutex
	rests    bool // upkeep was paused when that was last asked
	asked    time.Time
	tasks    *task.Queue
	wanted   map[string]bool    // jobs of the next scan, because of something that happened
	early    bool               // some task could not be done yet: scan again soon
	eager    bool               // the next scan is to relieve the fastest tier, however full it is
	next     map[bool]time.Time // of scans of a part of the maps, and of all
	relieved time.Time          // when a threshold last led to a scan
	findings map[string]string
	dense    map[disk.GroupID]tiering.Period // groups that packing was of no use for, and when they had last been used
	repairs  Repairs
	stuck    map[disk.GroupID]bool // that lack a replica which no disk could take
	checked  Checked
	scrubbed Scrubbed
}

// errNotYet refuses a task that may be welcome later.
var errNotYet = errors.New("not yet")

// newCuration gives a curation of a front's maps.
func newCuration(ctx context.Context, f *Front, writer *kv.Writer) (*curation, error) {
	c := &curation{front: f, scan: &upkeep.Scan{Policy: f.o.Policy}, turn: make(chan struct{}, 1), wanted: map[string]bool{}, next: map[bool]time.Time{}, findings: map[string]string{}, dense: map[disk.GroupID]tiering.Period{}, stuck: map[disk.GroupID]bool{}}
	var err error
	if c.tasks, err = task.New(upkeep.Classes()); err != nil {
		return nil, err
	}
	if f.o.Policy.Learn > 0 {
		if c.learner, err = newLearner(ctx, f.o.Store, f.o.Holder); err != nil {
			return nil, err
		}
	}
	runs, err := f.o.Store.LooseTable(ctx, "curator_runs")
	if err != nil {
		return nil, err
	}
	// Whoever had the front's name before is dead.
	c.curator, err = curator.Open(ctx, f.o.Store, writer, curator.Options{Name: cmp.Or(f.o.Holder, "front"), Tables: f.maps.Tables(), Jobs: c.scan.Jobs(), Space: shuffle.Table{Rows: runs},
		Ranges: 8, Partitions: 1, TTL: 3 * time.Second, Poll: pausePoll, Rest: slowTurn - 1,
		Pace: func(ctx context.Context, _ int) error { f.served.giveWay(ctx); return ctx.Err() }})
	if err != nil {
		return nil, err
	}
	_, err = c.pause(ctx)
	return c, err
}

// run scans whenever that is due, until ctx ends.
func (c *curation) run(ctx context.Context) {
	c.want(upkeep.Partial()...)
	tick := time.NewTicker(scanPoll)
	defer tick.Stop()
	looked := c.front.o.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if rests, _ := c.paused(ctx); rests { // where that is not known, the scan asks again and fails
			continue
		}
		now := c.front.o.Now()
		if now.Sub(looked) >= tidyEvery {
			looked = now
			c.look(ctx, now)
		}
		jobs := c.due(now)
		if len(jobs) == 0 {
			continue
		}
		if _, err := c.do(ctx, jobs); err != nil && ctx.Err() == nil && !errors.Is(err, curator.ErrPaused) {
			c.front.log.Warn("scan failed", "jobs", jobs, "error", err)
			c.want(jobs...)
		}
	}
}

// scanPoll is how often it is looked whether a scan is due.
const scanPoll = 100 * time.Millisecond

// look wants a scan where something could not be done before, a threshold is passed, or it was learned that moving data down pays.
func (c *curation) look(ctx context.Context, now time.Time) {
	c.mu.Lock()
	early, rested := c.early, now.Sub(c.relieved) >= relieveEvery
	c.early = false
	c.mu.Unlock()
	if early {
		c.want(upkeep.Disks, upkeep.Retired, upkeep.Replicas, upkeep.VDisks)
	}
	if idle := c.idle(upkeep.TierDown, upkeep.Balance); c.learns(ctx, now, idle) || rested && c.scan.Due(c.seen()) {
		c.want(upkeep.Cold)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.relieved = now
	}
}

// learns reports whether the learner wants the fastest tier relieved now.
func (c *curation) learns(ctx context.Context, now time.Time, idle bool) bool {
	if c.learner == nil {
		return false
	}
	view := c.front.disksNow()
	run, err := c.learner.poll(ctx, now, c.front.Served(), view, c.scan.Policy, c.scan.Due(view), idle)
	if err != nil && ctx.Err() == nil {
		c.front.log.Warn("what was learned cannot be kept", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eager = c.eager || run
	return run
}

// seen is how full the disks are, and who decides when the fastest are relieved.
func (c *curation) seen() upkeep.View {
	moving := !c.idle(upkeep.TierDown, upkeep.Balance) // before it is asked how full disks are
	v := c.front.disksNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Moving, v.Learned, v.Relieve = moving, c.learner != nil, c.eager
	return v
}

// relieveEvery is how long it is at least between two scans because of a threshold (NSDI'17 §4.3.4: five minutes).
const relieveEvery = 5 * time.Minute

// want asks for a scan of jobs soon.
func (c *curation) want(jobs ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		c.wanted[j] = true
	}
}

// due gives the jobs to scan now, none if there is no need.
func (c *curation) due(now time.Time) (jobs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, full := range []bool{true, false} {
		if at, known := c.next[full]; known && now.Before(at) {
			continue
		} else if !known {
			c.next[full] = now.Add(c.every(full))
			continue
		}
		c.next[full] = now.Add(c.every(full))
		for _, j := range upkeep.Partial() {
			c.wanted[j] = true
		}
		if full {
			for _, j := range upkeep.All() {
				c.wanted[j] = true
			}
		}
	}
	for j := range c.wanted {
		jobs = append(jobs, j)
	}
	clear(c.wanted)
	slices.Sort(jobs)
	return jobs
}

func (c *curation) every(full bool) time.Duration {
	if full {
		return c.scan.Policy.Full()
	}
	return c.scan.Policy.Partial()
}

// do scans for some jobs, or all, and queues the tasks.
func (c *curation) do(ctx context.Context, jobs []string) (_ ScanReport, err error) {
	if len(jobs) == 0 || slices.Contains(jobs, upkeep.Space) {
		c.mu.Lock()
		clear(c.findings)
		c.mu.Unlock()
	}
	if len(jobs) == 0 || slices.Contains(jobs, upkeep.Cold) {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.eager = c.eager && err != nil
		}()
	}
	return c.scanFor(ctx, jobs, func(t task.Task) error {
		now := c.front.o.Now()
		c.mu.Lock()
		verdict, err := c.tasks.Add(now, t)
		c.mu.Unlock()
		if err != nil || verdict != task.DoNow {
			return err
		}
		c.end(now, t, c.confirm(ctx, t))
		return nil
	})
}

// scanFor scans for some jobs, or all, and hands over the tasks that are to be done.
func (c *curation) scanFor(ctx context.Context, jobs []string, take func(task.Task) error) (ScanReport, error) {
	if err := c.await(ctx); err != nil {
		return ScanReport{}, err
	}
	defer func() { <-c.turn }()
	view, err := c.front.view(ctx)
	if err != nil {
		return ScanReport{}, err
	}
	begun := time.Now()
	report := ScanReport{At: c.front.o.Now().UTC(), Tasks: map[string]int64{}}
	planner := c.scan.See(view)
	hand := func(t task.Task) error {
		report.Tasks[t.Kind]++
		return take(t)
	}
	r, err := c.takeTurn(ctx, func(proposed task.Task) error {
		tasks, err := planner.Take(proposed)
		for _, t := range tasks {
			if err == nil {
				err = hand(t)
			}
		}
		return err
	}, jobs)
	for _, t := range planner.Rest() {
		if err == nil {
			err = hand(t)
		}
	}
	report.Scan, report.Records, report.Took = r.Scan, r.Records, time.Since(begun).Seconds()
	return report, err
}

// takeTurn scans when no other front does. One that dies meanwhile has the lease for a few seconds more.
func (c *curation) takeTurn(ctx context.Context, take func(task.Task) error, jobs []string) (curator.Report, error) {
	for {
		r, err := c.curator.Scan(ctx, take, jobs...)
		if !errors.Is(err, kv.ErrTaken) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(turnPoll):
		}
	}
}

// turnPoll is how often it is looked whether another front still scans.
const turnPoll = time.Second

// await takes the turn to scan. A scan that was begun before a pause keeps it until the pause ends.
func (c *curation) await(ctx context.Context) error {
	for {
		p, err := c.pause(ctx)
		if err != nil {
			return err
		}
		if p.Why != "" {
			return fmt.Errorf("%w since %s: %s", curator.ErrPaused, p.Since.Format(time.RFC3339), p.Why)
		}
		select {
		case c.turn <- struct{}{}:
			return nil
		case <-time.After(scanPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pausePoll is for how long an answer holds whether upkeep is paused.
const pausePoll = 500 * time.Millisecond

// paused reports whether upkeep is paused, by this front or another. It asks the store at most every pausePoll.
func (c *curation) paused(ctx context.Context) (bool, error) {
	c.mu.Lock()
	rests, asked := c.rests, c.asked
	c.mu.Unlock()
	if time.Since(asked) < pausePoll {
		return rests, nil
	}
	p, err := c.pause(ctx)
	return p.Why != "", err
}

// pause asks the store whether upkeep is paused.
func (c *curation) pause(ctx context.Context) (curator.Pause, error) {
	asked := time.Now()
	p, err := c.curator.Paused(ctx)
	if err == nil {
		c.know(asked, p.Why != "")
	}
	return p, err
}

// know remembers whether upkeep was paused at a time, unless a later answer is known.
func (c *curation) know(at time.Time, rests bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.asked) {
		c.rests, c.asked = rests, at
	}
}

// begin gives the tasks to do now.
func (c *curation) begin(now time.Time) []task.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks.Next(now)
}

// end says how a task ended. One that was not queued is not counted.
func (c *curation) end(now time.Time, t task.Task, err error) {
	how := task.Done
	switch {
	case err == nil:
	case errors.Is(err, volume.ErrUnfinished):
		c.want(upkeep.VDisks)
	case errors.Is(err, volume.ErrMoot), errors.Is(err, upkeep.ErrUsed):
		how = task.Refused
	case errors.Is(err, kv.ErrTaken), errors.Is(err, volume.ErrInUse): // the front that has the vDisk does it
		how = task.Refused
		if t.Kind == upkeep.Rebuild || t.Kind == upkeep.RollBack { // or had it for a moment, to rebuild another of its groups
			c.soon()
		}
	case errors.Is(err, errNotYet), errors.Is(err, volume.ErrNoTarget), errors.Is(err, volume.ErrNoSpace), errors.Is(err, volume.ErrNoDisk):
		how = task.Refused
		c.soon()
	default:
		how = task.Failed
		c.soon()
		c.front.log.Warn("upkeep failed", "task", t.Kind, "of", upkeep.Subject(t), "error", err)
	}
	if errors.Is(err, volume.ErrMoot) {
		c.noteDense(upkeep.Packed(t))
	}
	if err == nil && t.Kind == upkeep.RemoveVDisk {
		c.want(upkeep.VDisks) // nothing may be read through its parent now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.tasks.End(now, t, how) // it is not of the queue if something that happened led to it, and no scan
}

// noteDense remembers groups that packing was of no use for, so that they are not read again at every scan. maxDense is how many.
func (c *curation) noteDense(groups []disk.GroupID, used tiering.Period) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.dense) > maxDense {
		clear(c.dense)
	}
	for _, id := range groups {
		c.dense[id] = used
	}
}

const maxDense = 1 << 16

func (c *curation) notWorthPacking() map[disk.GroupID]tiering.Period {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.dense)
}

func (c *curation) soon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.early = true
}

// idle reports whether no task of some kinds waits or is under way.
func (c *curation) idle(kinds ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.tasks.Backlog(c.front.o.Now()) {
		if (len(kinds) == 0 || slices.Contains(kinds, b.Kind)) && b.Waiting+b.UnderWay > 0 {
			return false
		}
	}
	return true
}

// confirm looks again at a record that leads nowhere: it may have changed during the scan.
func (c *curation) confirm(ctx context.Context, t task.Task) error {
	still, err := upkeep.Confirm(ctx, c.front.maps, t)
	if err != nil || !still {
		return cmp.Or(err, volume.ErrMoot)
	}
	c.front.log.Error("the maps are damaged", "finding", t.Why)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings[string(t.What)] = t.Why
	return nil
}

// repaired changes what is known of repairs.
func (c *curation) repaired(change func(*Repairs)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.repairs)
}

// stick notes whether a group lacks a replica which no disk can take. mostStuck is of how many that is known.
func (c *curation) stick(id disk.GroupID, lacks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !lacks {
		delete(c.stuck, id)
	} else if len(c.stuck) < mostStuck {
		c.stuck[id] = true
	}
}

const mostStuck = 10_000

// scrubs changes how far it is known to have come that all is read.
func (c *curation) scrubs(change func(*Scrubbed)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.scrubbed)
}

func (c *curation) note(done Checked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked = done
}
