package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gleaner/chart"
	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/control/harvester"
	"gleaner/fabric"
	"gleaner/history"
	"gleaner/lab/patterns"
	"gleaner/web"
	"gleaner/web/page"
)

// pages are what a browser sees of a gleaner that is up. end waits until nothing
// behind them uses the history any more.
func (u *wiring) pages(ctx context.Context, api *web.API, up *harvester.Harvester, past *history.Store) (h http.Handler, end func()) {
	ctx, stop := context.WithCancel(ctx)
	classes := &classesBehind{ctx: ctx, past: past}
	trail := page.NewTrail()
	var watching sync.WaitGroup
	watching.Go(func() {
		trail.Watch(ctx, func() page.Division {
			s := u.shown.Status()
			return page.Division{At: s.At, Size: s.Size, Primary: s.Primary, Reserve: s.Reserve, Harvested: api.Harvested()}
		})
	})
	results := filepath.Join(u.dir, "lab")
	site := &page.Site{Board: u.shown, Harvested: api.Harvested, Most: up.Most(), Jobs: jobsBehind{api, api.Machine}, Trail: trail,
		Disks: u.disks.shown, Classes: classes.last, Learned: up.Learned,
		Traces: tracesBehind{filepath.Join(u.dir, "traces")}, Experiments: labBehind{results, cache{dir: resultsDir()}}.experiments, Results: results}
	return site.Handler(), func() { stop(); watching.Wait(); classes.running.Wait() }
}

// invite prints a link to the page. It goes to stdout: the log is kept, and must not have
// its token. Systemd's journal is a log too, which others than gleaner's user may read.
func (u *wiring) invite(base string) {
	if base == "" {
		return
	}
	if f, ok := u.out.(*os.File); ok && journalled(f) {
		fmt.Fprintf(u.out, "The page: %s ('gleaner status --link' prints a link that lets one browser in)\n", base)
		return
	}
	fmt.Fprintf(u.out, "The page: %s\nThis link lets one browser in, within an hour; 'gleaner status --link' prints another.\n", u.browsers.Link(base))
}

// journalled reports whether f is systemd's journal, which JOURNAL_STREAM names by device and inode.
func journalled(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// jobsBehind are the jobs of the pages: those of the API.
type jobsBehind struct {
	api *web.API
	web.Machine
}

func (j jobsBehind) Submit(ctx context.Context, text string) (cluster.JobID, error) {
	accepted, err := j.api.Submit(ctx, web.Submission{File: "job"}, strings.NewReader(text))
	return accepted.ID, err
}

func (j jobsBehind) TaskOf(job *board.Job, id cluster.TaskID) board.Task {
	return j.api.TaskOf(job, id)
}

func (j jobsBehind) TasksOf(ctx context.Context, job *board.Job, of board.Choice) []board.Task {
	return j.api.TasksOf(ctx, job, of)
}

func (j jobsBehind) Follow(w http.ResponseWriter, r *http.Request) { j.api.Output(w, r) }

// disksBehind are the disks while their front is open.
type disksBehind struct {
	mu    sync.RWMutex // held for reading while the front is used
	front *fabric.Front

	counting sync.Mutex // of replicas
	counted  time.Time
	grids    []fabric.Grid

	describing page.Turn // to count the groups of a vDisk
	described  map[string]described
}

// A described vDisk is what was counted of it, and when.
type described struct {
	fabric.Stat
	at time.Time
}

// show sets the front; nil before it is closed. It waits until nobody uses the last one.
func (d *disksBehind) show(front *fabric.Front) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.front = front
}

// shown are the disks for the pages; nil if they are not open.
func (d *disksBehind) shown() page.Disks {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return nil
	}
	return d
}

// told are the disks for metrics; nil if they are not open.
func (d *disksBehind) told() web.Storage {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return nil
	}
	return d
}

// Curation tells how their upkeep is getting on.
func (d *disksBehind) Curation(ctx context.Context) (fabric.Curation, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return fabric.Curation{}, nil
	}
	return d.front.Curation(ctx)
}

// List lists the vDisks.
func (d *disksBehind) List(ctx context.Context) ([]fabric.Info, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return nil, nil
	}
	return d.front.List(ctx)
}

// Stat tells all of one vDisk or snapshot. That reads its groups: one is counted at a time, and again when the last count is old.
func (d *disksBehind) Stat(ctx context.Context, name string) (fabric.Stat, error) {
	if err := d.describing.Take(ctx); err != nil {
		return fabric.Stat{}, err
	}
	defer d.describing.Give()
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return fabric.Stat{}, errors.New("the disks are not open")
	}
	maps.DeleteFunc(d.described, func(_ string, s described) bool { return time.Since(s.at) > statsLast })
	if last, known := d.described[name]; known {
		return last.Stat, nil
	}
	stat, err := d.front.Stat(ctx, name)
	if err == nil {
		if d.described == nil {
			d.described = map[string]described{}
		}
		d.described[name] = described{stat, time.Now()}
	}
	return stat, err
}

// statsLast is how long a count of the groups of a vDisk is shown.
const statsLast = 5 * time.Second

// Lent lists the disks that hold them.
func (d *disksBehind) Lent(ctx context.Context) ([]fabric.Lent, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return nil, nil
	}
	return d.front.Lent(ctx)
}

// Grids are the disks by the habits of their owners, with their replicas. They are counted again when the last count is old: that reads all groups.
func (d *disksBehind) Grids(ctx context.Context) ([]fabric.Grid, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.front == nil {
		return nil, nil
	}
	d.counting.Lock()
	defer d.counting.Unlock()
	if time.Since(d.counted) < gridsLast {
		return d.grids, nil
	}
	grids, err := d.front.Grids(ctx)
	if err == nil {
		d.grids, d.counted = grids, time.Now()
	}
	return grids, err
}

// gridsLast is how long a count of all replicas is shown.
const gridsLast = 10 * time.Second

// classesBehind are the classes of all tenants in the history. They are found in the background
// when somebody looks and the last ones are old, because that may take long.
type classesBehind struct {
	ctx     context.Context
	past    *history.Store
	running sync.WaitGroup

	mu    sync.Mutex
	busy  bool
	at    time.Time // of the last attempt
	found *page.Classes
	err   error
}

// classesLast is how long classes are shown before they are found again.
const classesLast = time.Hour

// last are the last classes that were found.
func (c *classesBehind) last() (*page.Classes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.busy && time.Since(c.at) > classesLast && c.ctx.Err() == nil {
		c.busy = true
		c.running.Go(c.find)
	}
	if c.at.IsZero() {
		return nil, page.ErrNotYet
	}
	return c.found, c.err
}

func (c *classesBehind) find() {
	found, err := findClasses(c.ctx, c.past)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.at, c.found, c.err = false, time.Now(), found, err
}

// findClasses classifies the tenants of a history by its last month.
func findClasses(ctx context.Context, past *history.Store) (*page.Classes, error) {
	w, _, err := past.LastWindow(ctx, history.Choice{Length: history.Month})
	if errors.Is(err, history.ErrEmpty) || errors.Is(err, history.ErrTooFew) {
		return nil, page.ErrNoHistory
	}
	if err != nil {
		return nil, err
	}
	series, err := past.Window(ctx, w)
	if err != nil {
		return nil, err
	}
	r := classify.Run(w, series, classify.Options{Seed: 1})
	if len(r.Tenants) == 0 {
		return nil, page.ErrNoHistory
	}
	figures := patterns.Classes(w, series, r)
	slices.Reverse(figures) // classes come last of the paper's figures, and matter most
	out := &page.Classes{Window: w, At: time.Now(), Servers: serversOf(series), Classes: r.Classes, Figures: figures}
	for _, t := range r.Tenants {
		out.Tenants = append(out.Tenants, page.Tenant{ID: t.ID, Class: t.Class, Pattern: t.Pattern, Servers: t.Servers, Mean: t.Mean, Peak: t.Peak, Period: t.Period, Why: t.Evidence.Why()})
	}
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, page.SkippedTenant{ID: s.ID, Reason: s.Reason})
	}
	out.Changes = changesSince(theDayBefore(w, series), r)
	if err := addReimages(ctx, past, r, out); err != nil {
		return nil, err
	}
	out.Tenant = func(id cluster.TenantID) (chart.Figure, bool) {
		for _, s := range series {
			if s.Tenant == id {
				return patterns.Tenant(w, s), true
			}
		}
		return chart.Figure{}, false
	}
	return out, nil
}

// theDayBefore classifies the tenants as they would have been a day before: by the same history without its last day.
func theDayBefore(w cluster.Window, series []cluster.Series) classify.Result {
	w.Len -= min(int(24*time.Hour/w.Step), w.Len)
	shorter := slices.Clone(series)
	for i := range shorter {
		shorter[i].CPU = shorter[i].CPU[:w.Len]
	}
	return classify.Run(w, shorter, classify.Options{Seed: 1})
}

// notable is by how much a peak differs from that of the day before, to be told: ten points.
const notable = 0.1

// changesSince tells what is new of which tenant.
func changesSince(before, now classify.Result) (all []page.Change) {
	were := map[cluster.TenantID]classify.Tenant{}
	for _, t := range before.Tenants {
		were[t.ID] = t
	}
	say := func(id cluster.TenantID, format string, args ...any) {
		all = append(all, page.Change{ID: id, What: fmt.Sprintf(format, args...)})
	}
	for _, t := range now.Tenants {
		was, known := were[t.ID]
		delete(were, t.ID)
		switch {
		case !known:
			say(t.ID, "is new, and %s", t.Pattern)
		case was.Pattern != t.Pattern:
			say(t.ID, "is %s now, was %s", t.Pattern, was.Pattern)
		case math.Abs(was.Peak-t.Peak) >= notable:
			say(t.ID, "its peak is %s of the cores now, was %s", inPercent(t.Peak), inPercent(was.Peak))
		}
	}
	for _, t := range before.Tenants {
		if _, gone := were[t.ID]; gone {
			say(t.ID, "has no class any more, was %s", t.Pattern)
		}
	}
	return all
}

// addReimages adds what the history says of reimages, and how replicas would be placed by that.
func addReimages(ctx context.Context, past *history.Store, r classify.Result, out *page.Classes) error {
	servers, log, err := reimagedServers(ctx, past)
	if err != nil {
		return err
	}
	for _, t := range mostReimaged(log) {
		if log.Reimages > 0 {
			out.Groups = append(out.Groups, page.Reimaged{ID: t.ID, Group: t.Group.String(), Reimages: t.Reimages, PerMonth: t.PerMonth, Changes: t.Changes})
		}
	}
	d := patterns.Divide(servers, log, r, 1)
	out.Grid = &page.Grid{Title: "Servers of the history", Says: []string{fmt.Sprintf("Of %d blocks that were placed on trial, three replicas each, %d are in different rows, columns and environments, and for %d there is no such place.", d.Blocks, d.Well, d.Refused)}}
	for _, c := range d.Cells {
		out.Grid.Cells = append(out.Grid.Cells, page.Cell{Row: c.Row, Column: c.Column, Tenants: c.Tenants, Servers: c.Servers, Free: c.Free, Replicas: -1})
	}
	return nil
}
