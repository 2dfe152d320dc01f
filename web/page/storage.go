package page

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/fabric"
)

// storageData is what the view of storage shows.
type storageData struct {
	Served bool
	Trees  []*diskTree
	VDisks int
	More   int // vDisks that are not shown
	Lent   lentDisks
	Charts []drawing
	Upkeep upkeepData
	Wrong  string
}

// upkeepData is what the view shows of the fabric's upkeep.
type upkeepData struct {
	fabric.Curation
	State  string
	Active []fabric.Backlog // tasks of which there are or were some
	Idle   []string         // all others
	Chart  *drawing         // of what the learner decided; nil if there is none
	Zoom   *zoom            // into it
}

// A diskTree is a vDisk with what reads through it.
type diskTree struct {
	fabric.Info
	Gone     bool // it was removed, and what reads through it keeps it
	Children []*diskTree
}

func (s *Site) storage(w http.ResponseWriter, r *http.Request) {
	var d storageData
	if disks := s.Disks(); disks != nil {
		d.Served = true
		all, err := disks.List(r.Context())
		if err == nil {
			d.Lent, err = disks.Lent(r.Context())
		}
		if err == nil {
			d.Upkeep.Curation, err = disks.Curation(r.Context())
			d.Upkeep.sort()
		}
		if err != nil {
			d.Wrong = err.Error()
		}
		left := shownVDisks
		d.VDisks, d.Trees = len(all), few(trees(all), &left)
		d.More = max(len(all)-shownVDisks, 0)
		if len(d.Lent) > 0 {
			if d.Charts, err = drawAll(fullnessPanel(d.Lent), tierPanel(d.Lent)); err != nil {
				failed(w, err)
				return
			}
		}
		if l := d.Upkeep.Learning; l != nil && len(l.Recent) > 0 {
			d.Upkeep.Zoom = zoomOf(r)
			drawn, err := draw(d.Upkeep.Zoom.into([]chart.Panel{learnedPanel(l)})[0], full, usual)
			if err != nil {
				failed(w, err)
				return
			}
			d.Upkeep.Chart = &drawn
		}
	}
	show(w, http.StatusOK, "storage", view{Title: "Storage", At: "/storage", Live: true, Data: d})
}

// sort says what upkeep does, and keeps the tasks apart that there is nothing to say of.
func (u *upkeepData) sort() {
	switch {
	case u.Paused != "":
		u.State = "paused"
	case u.Scanning:
		u.State = fmt.Sprintf("scans, %.0f%% done", 100*u.Share)
	default:
		u.State = "on"
	}
	for _, b := range u.Tasks {
		if b.Waiting+b.UnderWay > 0 || b.Done+b.Refused+b.Failed+b.LeftOut > 0 {
			u.Active = append(u.Active, b)
		} else {
			u.Idle = append(u.Idle, b.Kind)
		}
	}
}

// toFinish is how long a backlog takes at the pace of late.
func toFinish(b fabric.Backlog) string {
	switch {
	case b.Waiting+b.UnderWay == 0:
		return "–"
	case b.Seconds < 0:
		return "not known yet"
	}
	return time.Duration(b.Seconds * float64(time.Second)).Round(time.Second).String()
}

// trees puts each vDisk below the one that it reads through.
func trees(all []fabric.Info) (roots []*diskTree) {
	nodes := map[string]*diskTree{}
	for _, info := range all {
		nodes[info.Name] = &diskTree{Info: info}
	}
	for _, info := range all {
		above := nodes[info.Parent]
		switch {
		case info.Parent == "":
			roots = append(roots, nodes[info.Name])
			continue
		case above == nil: // several may read through what was removed
			above = &diskTree{Info: fabric.Info{Name: info.Parent}, Gone: true}
			nodes[info.Parent] = above
			roots = append(roots, above)
		}
		above.Children = append(above.Children, nodes[info.Name])
	}
	return roots
}

// few are as many of the trees, from the top, as there are left to show.
func few(trees []*diskTree, left *int) []*diskTree {
	for i, t := range trees {
		if *left == 0 {
			return trees[:i]
		}
		*left--
		t.Children = few(t.Children, left)
	}
	return trees
}

// lentDisks are listed as far as a view stays light.
type lentDisks []fabric.Lent

// Shown are the disks that are listed: of many, those first that are away, then the fullest.
func (l lentDisks) Shown() []fabric.Lent {
	if len(l) > listedDisks {
		rank := func(d fabric.Lent) float64 {
			if d.State == "away" {
				return 2
			}
			return fullness(d)
		}
		l = slices.Clone(l)
		slices.SortStableFunc(l, func(a, b fabric.Lent) int { return cmp.Compare(rank(b), rank(a)) })
	}
	return shown(l, listedDisks)
}

// More is how many are not listed.
func (l lentDisks) More() int { return max(len(l)-listedDisks, 0) }

// nearlyFull is from what share on a disk's fullness is a warning.
const nearlyFull = 0.9

// fullness is what share of a disk's quota is used.
func fullness(l fabric.Lent) float64 {
	if l.Quota <= 0 || l.State == "away" {
		return 0
	}
	return 1 - float64(l.Free)/float64(l.Quota)
}

// How many disks a chart has room for, and how many disks and vDisks are listed.
const (
	shownDisks  = 24
	listedDisks = 100
	shownVDisks = 200
)

func fullnessPanel(lent []fabric.Lent) chart.Panel {
	lent = slices.Clone(lent)
	slices.SortStableFunc(lent, func(a, b fabric.Lent) int { return int(1000*fullness(b)) - int(1000*fullness(a)) })
	bars := chart.Bars{Names: []string{"used"}, Values: [][]float64{nil}}
	for _, l := range lent[:min(len(lent), shownDisks)] {
		bars.Groups = append(bars.Groups, short(l.Disk))
		bars.Values[0] = append(bars.Values[0], 100*fullness(l))
	}
	return chart.Panel{Title: "How full disks are, the fullest first", X: "disk", Y: "% of its quota", Bars: bars, YRange: &[2]float64{0, 100}}
}

// short is as much of a disk's name as tells it from others.
func short(id string) string {
	if len(id) > 8 {
		return id[:8]
	}
	return id
}

func tierPanel(lent []fabric.Lent) chart.Panel {
	used, free := map[string]float64{}, map[string]float64{}
	var tiers []string
	for _, l := range lent {
		if l.State == "away" {
			continue
		}
		if !slices.Contains(tiers, l.Tier) {
			tiers = append(tiers, l.Tier)
		}
		used[l.Tier] += float64(l.Quota-l.Free) / float64(cluster.GB)
		free[l.Tier] += float64(l.Free) / float64(cluster.GB)
	}
	slices.SortFunc(tiers, strings.Compare)
	bars := chart.Bars{Groups: tiers, Names: []string{"used", "free"}, Values: [][]float64{nil, nil}, Stacked: true, Colours: []int{0, 7}}
	for _, tier := range tiers {
		bars.Values[0] = append(bars.Values[0], used[tier])
		bars.Values[1] = append(bars.Values[1], free[tier])
	}
	return chart.Panel{Title: "Space by tier", X: "tier", Y: "GiB", Bars: bars}
}

// learnedPanel is how long requests took, and when the learner had cold data moved down.
func learnedPanel(l *fabric.Learning) chart.Panel {
	all, moved := chart.Line{Name: "mean latency before each decision"}, chart.Line{Name: "cold data is moved down", Dots: true}
	for _, d := range l.Recent {
		at := float64(d.At.Unix())
		all.X, all.Y = append(all.X, at), append(all.Y, d.LatencyMS)
		if d.Run {
			moved.X, moved.Y = append(moved.X, at), append(moved.Y, d.LatencyMS)
		}
	}
	p := chart.Panel{Title: "What the learner decided, and how long requests took", X: "time (UTC)", Y: "ms", Time: true, Lines: []chart.Line{all}}
	if len(moved.X) > 0 {
		p.Lines = append(p.Lines, moved)
	}
	return p
}
