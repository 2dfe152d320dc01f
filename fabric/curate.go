package fabric

import (
	"context"
	"errors"
	gomaps "maps"
	"slices"
	"time"

	"gleaner/curator/task"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/upkeep"
)

// A ScanReport is what a scan found.
type ScanReport struct {
	Scan    uint64           `json:"scan"`
	At      time.Time        `json:"at"`
	Took    float64          `json:"seconds"`
	Records map[string]int64 `json:"records"` // read, by table
	Tasks   map[string]int64 `json:"tasks"`   // to be done, by kind
}

// Scan scans for the named jobs, or all, and returns when what follows from it has been done or refused. It gives how many tasks ended meanwhile: there may
// be some of earlier scans.
func (f *Front) Scan(ctx context.Context, jobs ...string) (ScanReport, []Backlog, error) {
	before := f.backlog()
	r, err := f.curation.do(ctx, jobs)
	if err != nil {
		return r, nil, err
	}
	for !f.curation.idle() {
		if rests, _ := f.curation.paused(ctx); rests { // where that is not known, tasks wait
			break
		}
		select {
		case <-ctx.Done():
			return r, nil, ctx.Err()
		case <-time.After(idleTurn):
		}
	}
	after := f.backlog()
	for i, b := range before {
		after[i].Done, after[i].Refused, after[i].Failed = after[i].Done-b.Done, after[i].Refused-b.Refused, after[i].Failed-b.Failed
	}
	return r, after, nil
}

// A Backlog says how much of a kind of task is to be done, and was since the front was opened.
type Backlog struct {
	Kind     string  `json:"task"`
	Waiting  int     `json:"waiting"`
	UnderWay int     `json:"under_way"`
	Done     int64   `json:"done"`
	Refused  int64   `json:"refused"` // not needed any more, or not welcome
	Failed   int64   `json:"failed"`
	LeftOut  int64   `json:"left_out"`          // because too many wait
	Seconds  float64 `json:"seconds_to_finish"` // at the pace of late; -1 if not known
}

func (f *Front) backlog() (all []Backlog) {
	f.curation.mu.Lock()
	defer f.curation.mu.Unlock()
	for _, b := range f.curation.tasks.Backlog(f.o.Now()) {
		seconds := b.ToFinish.Seconds()
		if b.ToFinish < 0 {
			seconds = -1
		}
		all = append(all, Backlog{b.Kind, b.Waiting, b.UnderWay, b.Done, b.Refused, b.Failed, b.LeftOut, seconds})
	}
	return all
}

// A Proposal is a task of a plan.
type Proposal struct {
	Task string `json:"task"`
	Of   string `json:"of"`
	Why  string `json:"why"`
}

// A Plan is what a scan would have done.
type Plan struct {
	ScanReport
	Proposals []Proposal `json:"proposals"` // the first of them
}

// maxProposals is how many tasks a plan lists.
const maxProposals = 1000

// Plan scans for the named jobs, or all, and does nothing.
func (f *Front) Plan(ctx context.Context, jobs ...string) (Plan, error) {
	p := Plan{Proposals: []Proposal{}}
	var err error
	p.ScanReport, err = f.curation.scanFor(ctx, jobs, func(t task.Task) error {
		if len(p.Proposals) < maxProposals {
			p.Proposals = append(p.Proposals, Proposal{t.Kind, upkeep.Subject(t), t.Why})
		}
		return nil
	})
	return p, err
}

// Pause stops upkeep for a reason, but for the repair of what is lost. Other fronts know of it within pausePoll.
func (f *Front) Pause(ctx context.Context, why string) error {
	if err := f.curation.curator.Pause(ctx, why); err != nil {
		return err
	}
	f.curation.know(time.Now(), true)
	return nil
}

// Resume ends a pause.
func (f *Front) Resume(ctx context.Context) error {
	if err := f.curation.curator.Resume(ctx); err != nil {
		return err
	}
	f.curation.know(time.Now(), false)
	return nil
}

// A Curation says how upkeep is getting on.
type Curation struct {
	Paused   string        `json:"paused"` // why; empty if it is not
	Since    time.Time     `json:"paused_since,omitzero"`
	Scan     uint64        `json:"scan"` // the last
	Scanning bool          `json:"scanning"`
	Share    float64       `json:"share"`              // of the scan that is done
	Next     time.Time     `json:"next_scan,omitzero"` // at the latest; zero before the first
	Pace     float64       `json:"pace"`               // share of the time that tasks may take now, on the server that is used most
	Tasks    []Backlog     `json:"tasks"`
	Repairs  Repairs       `json:"repairs"` // since the front was opened
	Damaged  int           `json:"damaged"` // groups that were found to be damaged since then, and have no other replica to be mended from
	Away     []Lent        `json:"away"`    // disks that cannot be reached; after a grace what they have counts as lost
	Tiers    []TierUse     `json:"tiers"`
	Findings []string      `json:"findings"` // of the last scan of the maps as a whole: records that lead nowhere
	Checked  Checked       `json:"checked"`  // since the front was opened
	Scrubbed Scrubbed      `json:"scrubbed"` // the same
	Policy   upkeep.Policy `json:"policy"`
	Learning *Learning     `json:"learning,omitempty"` // what was decided last, where it is learned when to move data down
	Served   Served        `json:"served"`             // since the front was opened
}

// Repairs are of groups that lack a replica, be it that a scan has found that or that it was seen when it was lost.
type Repairs struct {
	Waiting int   `json:"waiting"` // groups
	NoDisk  int   `json:"no_disk"` // groups that lack a replica which no disk can take now
	Done    int64 `json:"done"`    // groups that got a replica, or had them all when their turn came
	Failed  int64 `json:"failed"`  // attempts, which are made again
}

// A TierUse is how full a tier is.
type TierUse struct {
	Tier  string  `json:"tier"`
	Used  float64 `json:"used"`  // share
	Least float64 `json:"least"` // of its emptiest disk
	Most  float64 `json:"most"`  // of its fullest
}

// Curation tells how upkeep is getting on.
func (f *Front) Curation(ctx context.Context) (Curation, error) {
	p, err := f.curation.curator.Progress(ctx)
	if err != nil {
		return Curation{}, err
	}
	s := Curation{Paused: p.Pause.Why, Since: p.Pause.Since, Scan: p.Scan, Scanning: p.Open, Share: p.Share(), Tasks: f.backlog(), Away: f.unreached(f.pool.all()), Tiers: []TierUse{}, Findings: []string{}, Policy: f.o.Policy, Learning: f.curation.learner.says(), Served: f.Served()}
	s.Pace = f.o.Policy.Share(f.pool.load(slices.Collect(gomaps.Keys(f.pool.all())), f.o.Now().UTC().Hour()))
	view := f.disksNow()
	for _, u := range view.Usages() {
		s.Tiers = append(s.Tiers, TierUse{string(u.Tier), u.Share(), u.Least, u.Most})
	}
	stuck, err := f.stillStuck(ctx)
	if err != nil {
		return Curation{}, err
	}
	f.curation.mu.Lock()
	defer f.curation.mu.Unlock()
	for _, why := range f.curation.findings {
		s.Findings = append(s.Findings, why)
	}
	slices.Sort(s.Findings)
	for _, at := range f.curation.next {
		if s.Next.IsZero() || at.Before(s.Next) {
			s.Next = at.UTC().Truncate(time.Second)
		}
	}
	s.Repairs, s.Checked, s.Scrubbed = f.curation.repairs, f.curation.checked, f.curation.scrubbed
	s.Repairs.NoDisk, s.Damaged = stuck, f.damages.groups()
	return s, nil
}

// stillStuck is how many groups lack a replica that no disk could take. Some may have been removed, or repaired by another front.
func (f *Front) stillStuck(ctx context.Context) (int, error) {
	f.curation.mu.Lock()
	all := gomaps.Clone(f.curation.stuck)
	f.curation.mu.Unlock()
	n := 0
	for id := range all {
		g, _, err := f.maps.Group(ctx, id)
		if err != nil && !errors.Is(err, maps.ErrNotFound) {
			return n, err
		}
		if err == nil && g.State() == group.Degraded {
			n++
			continue
		}
		f.curation.stick(id, false)
	}
	return n, nil
}
