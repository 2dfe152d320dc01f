package page

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/fabric"
)

// overviewData is what the overview shows.
type overviewData struct {
	board.Status
	Harvested, Free cluster.Resources
	Now             time.Time
	Warnings        []string
	Span            Span
	Spans           []Span
	Charts          []drawing
	Zoom            *zoom
	Jobs            []jobRow // that have not ended
	More            int      // of them that are not shown
	Lent            lentDisks
	Backlog         int // tasks of upkeep that wait or are under way
	Repairs         int // groups
	Damaged         int // groups that cannot be repaired
}

func (s *Site) overview(w http.ResponseWriter, r *http.Request) {
	span := max(slices.IndexFunc(Spans, func(s Span) bool { return s.Name == r.URL.Query().Get("span") }), 0)
	d := overviewData{Status: s.Board.Status(), Harvested: s.Harvested(), Now: time.Now(), Span: Spans[span], Spans: Spans, Zoom: zoomOf(r)}
	d.Free = d.Status.Free()
	slices.Reverse(d.Last)
	now := slices.DeleteFunc(s.Board.Jobs(), func(j board.Job) bool { return !j.Ended.IsZero() })
	d.Jobs, d.More = s.rows(shown(now, shownNow)), max(len(now)-shownNow, 0)
	var err error
	if disks := s.Disks(); disks != nil {
		var care fabric.Curation
		if d.Lent, err = disks.Lent(r.Context()); err == nil {
			care, err = disks.Curation(r.Context())
		}
		for _, b := range care.Tasks {
			d.Backlog += b.Waiting + b.UnderWay
		}
		d.Repairs, d.Damaged = care.Repairs.Waiting, care.Damaged
		if err != nil {
			failed(w, err)
			return
		}
	}
	d.Warnings = warnings(d, s.Most, s.Disks() != nil)
	if d.Charts, err = drawAll(d.Zoom.into(s.Trail.panels(span))...); err != nil {
		failed(w, err)
		return
	}
	show(w, http.StatusOK, "overview", view{Title: "Overview", At: "/", Live: true, Data: d})
}

// Most that the overview shows: jobs that have not ended, and warnings.
const (
	shownNow      = 50
	shownWarnings = 20
)

// stale is how old the last sample may be before that is a warning.
const stale = 10 * time.Second

// warnings say in words what someone should know or do.
func warnings(d overviewData, most cluster.Resources, disks bool) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if age := d.Now.Sub(d.At); age > stale && !d.At.IsZero() {
		say("The last sample is %s old: what is shown may be out of date.", age.Round(time.Second))
	}
	if d.Unaware {
		say("The policy knows nothing of the primary: nothing is kept free for it, and no task makes way. Start gleaner without --policy to change that.")
	}
	for _, short := range d.Short {
		say("No room since %s: %s waits: %s.", clock(short.Since), short.Of, short.Because)
	}
	if most.CPU <= 0 || most.Memory <= 0 {
		say("Nothing can ever be harvested here: the reserve and the least use of a primary take everything. Start gleaner with a smaller --reserve-cpu or --reserve-memory.")
	}
	if d.Waiting > 0 && d.Running == 0 {
		say("%s and none runs: %s and %s are free to harvest now. The list of jobs says what each waits for, and 'gleaner doctor' says what this machine allows.", waiting(d.Waiting), cores(d.Free), memory(d.Free))
	}
	if !disks {
		say("No disks are served. The log of gleaner says why.")
	}
	if d.Damaged > 0 {
		say("Some of what was written is lost: %s damaged, with no other replica to mend from. 'gleaner disk check' says which vDisks are hit.", count(d.Damaged, "group"))
	}
	for _, l := range d.Lent {
		switch {
		case l.State == "away":
			say("The disk %s of %s is away: what it holds is rebuilt elsewhere if it stays away.", l.Disk, l.Server)
		case fullness(l) >= nearlyFull:
			say("The disk %s of %s is %.0f%% full.", l.Disk, l.Server, 100*fullness(l))
		}
	}
	if more := len(all) - shownWarnings; more > 1 {
		all = append(all[:shownWarnings], fmt.Sprintf("And %d more like these.", more))
	}
	return all
}

func waiting(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}
