package page

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/control/loads"
	"gleaner/dilation"
	"gleaner/fabric"
	"gleaner/fabric/upkeep"
	"gleaner/harvest"
	"gleaner/input"
	"gleaner/placement"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// hostile is a name that breaks pages which do not escape it.
const hostile = `<img src=x onerror=alert(1)>"'&`

// jobsOfTest keep the output of tasks in files.
type jobsOfTest struct {
	dir       string
	submitted string
	cancelled cluster.JobID
}

func (j *jobsOfTest) Submit(_ context.Context, text string) (cluster.JobID, error) {
	switch text {
	case "bad":
		return 0, input.Errorf("job", "%s", hostile)
	case "full":
		return 0, errors.New("no space left on device")
	}
	j.submitted = text
	return 7, nil
}

func (j *jobsOfTest) Cancel(id cluster.JobID) error { j.cancelled = id; return nil }

func (j *jobsOfTest) Output(id cluster.TaskID, stderr bool) (*os.File, error) {
	return os.Open(filepath.Join(j.dir, fmt.Sprintf("%s-%d-%d-%v", id.Stage, id.Index, id.Attempt, stderr)))
}

func (j *jobsOfTest) LastRun(id cluster.TaskID) (cluster.TaskID, bool) {
	id.Attempt = 1
	return id, id.Stage == "map" && id.Index == 0
}

func (j *jobsOfTest) Outcome(id cluster.TaskID) (cluster.Outcome, bool) {
	code := 143
	return cluster.Outcome{Started: noon, Ended: noon.Add(time.Minute), Killed: true, Exit: &code, Reason: hostile}, id.Stage == "map" && id.Index == 0
}

func (j *jobsOfTest) TaskOf(_ *board.Job, id cluster.TaskID) board.Task {
	code := 0
	return board.Task{Task: fmt.Sprintf("job-7/%s-%d", id.Stage, id.Index), State: board.Finished, Attempt: 2, Since: noon, Took: 90 * time.Second, Exit: &code}
}

// TasksOf is as many tasks as there are asked for, up to 250, each of which says what was asked for.
func (j *jobsOfTest) TasksOf(_ context.Context, job *board.Job, of board.Choice) (all []board.Task) {
	for i := of.Skip; i < min(of.Skip+of.Most, 250); i++ {
		all = append(all, board.Task{Task: fmt.Sprintf("job-7/map-%d", i), State: board.Waiting, Since: noon, Reason: fmt.Sprintf("asked for %q %q", of.Stage, of.State)})
	}
	return all
}

func (j *jobsOfTest) Follow(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "output of %s/%s", r.PathValue("id"), r.PathValue("task"))
}

type disksOfTest struct {
	list []fabric.Info
	lent []fabric.Lent
	care fabric.Curation
}

func (d disksOfTest) Grids(context.Context) ([]fabric.Grid, error) {
	return []fabric.Grid{{Tier: "ssd", Cells: []fabric.GridCell{{Cell: placement.Cell{Row: 2, Column: 3, Tenants: 1, Servers: 2, Free: cluster.GB}, Replicas: 77}},
		Placement: fabric.Placement{Groups: 40, Well: 30, Wishes: []fabric.Wish{{Different: "racks", Kept: 35}}}}}, nil
}

func (d disksOfTest) Curation(context.Context) (fabric.Curation, error) { return d.care, nil }

func (d disksOfTest) Stat(_ context.Context, name string) (fabric.Stat, error) {
	i := slices.IndexFunc(d.list, func(info fabric.Info) bool { return info.Name == name })
	switch {
	case i < 0:
		return fabric.Stat{}, input.Fieldf("name", "%s: there is no such vDisk", name)
	case name == "other":
		return fabric.Stat{}, context.DeadlineExceeded
	}
	return fabric.Stat{Info: d.list[i], Chain: []string{hostile, "old" + fabric.Removed}, Blocks: 9, Groups: 5, States: map[string]int{"sealed": 4, fabric.OutOfReach: 1}, Have: map[int]int{1: 2, 3: 3},
		Tiers: map[string]int{"ssd": 11}, Bytes: map[string]int64{"ssd": 3 << 20}, Placement: fabric.Placement{Groups: 5, Well: 4}}, nil
}

func (d disksOfTest) List(context.Context) ([]fabric.Info, error) { return d.list, nil }
func (d disksOfTest) Lent(context.Context) ([]fabric.Lent, error) { return d.lent, nil }

// tracesOfTest keeps programs; those of the names "job" and "long" can be read.
type tracesOfTest struct{ saved, filled string }

func (t *tracesOfTest) List() ([]string, error) { return []string{"job"}, nil }

func (t *tracesOfTest) Load(name string) (*Program, error) {
	switch name {
	case "long":
		return &Program{Listing: strings.Repeat("client: make#1 of a file with a name\n", 20_000)}, nil
	case "job":
	default:
		return nil, fs.ErrNotExist
	}
	line := chart.Panel{Title: "Calls", X: "scale n", Y: "calls", Lines: []chart.Line{{Name: hostile, X: []float64{1, 2}, Y: []float64{1, 4}}}}
	return &Program{Scales: "3, 4", Listing: "client: 1 nodes\n    repeat 2*n times:", Coverage: []Coverage{{Target: "master", Constant: 2, Flow: 1, Asked: 1}},
		Asked: []Asked{{"client", "create", "create#1", "uuid", hostile}}, Doubts: []string{"nodes of client"}, Curves: []chart.Panel{line},
		Replay: &Replay{"The target held n = 8.", []chart.Panel{line}}}, nil
}

func (t *tracesOfTest) Save(name, text string) error {
	if text == "bad" {
		return input.Errorf("program", "%s", hostile)
	}
	t.saved = name + "=" + text
	return nil
}

func (t *tracesOfTest) Fill(name, method, argument, value string) error {
	if value == "bad" {
		return input.Errorf("value", "%s", hostile)
	}
	t.filled = strings.Join([]string{name, method, argument, value}, " ")
	return nil
}

func experimentsOfTest() ([]Experiment, error) {
	return []Experiment{{Name: "fig13", Short: "jobs", Paper: "OSDI'16, Figure 13", Command: "gleaner reproduce fig13", Seconds: 2.5, Tables: []Table{{Title: "Job times", Columns: []string{"policy", "paper", "ours"}, Rows: slices.Repeat([][]string{{"PT", "1,181 s", hostile}}, 100), Notes: []string{"at 10%"}}},
		Figures: []chart.Figure{{Panels: slices.Repeat([]chart.Panel{{Title: "Job time by load", X: "load", Y: "s", Lines: []chart.Line{{Name: hostile, X: []float64{1, 2}, Y: []float64{3, math.NaN()}}}}}, 15)}}},
		{Name: "scc", Short: "costs", Command: "gleaner reproduce scc"}}, nil
}

// empty is the site of a gleaner that has just started.
func empty(t testing.TB) *Site {
	b := board.New(harvest.Reserve{Fixed: cluster.Resources{CPU: 500, Memory: cluster.GB}})
	tell(t, b, cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s", CPU: 4 * cluster.Core, Memory: 8 * cluster.GB}})
	return &Site{Board: b, Harvested: func() cluster.Resources { return cluster.Resources{CPU: 250, Memory: 32 * cluster.MB} },
		Most: cluster.Resources{CPU: 3500, Memory: 7 * cluster.GB}, Jobs: &jobsOfTest{dir: t.TempDir()}, Trail: NewTrail(),
		Disks: func() Disks { return nil }, Classes: func() (*Classes, error) { return nil, ErrNoHistory },
		Traces: &tracesOfTest{}, Experiments: experimentsOfTest, Results: "/data/lab",
		Learned: func() ([]loads.Learned, dilation.Machine) { return nil, dilation.Machine{2, 1} }}
}

func tell(t testing.TB, b *board.Board, events ...cluster.Event) {
	t.Helper()
	for _, ev := range events {
		if err := b.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
}

// busy is the site of a gleaner with a job whose map-0 was killed, ran again and
// finished, and map-1 runs; with vDisks, disks, tenants and a past.
func busy(t testing.TB) *Site {
	s := empty(t)
	request := cluster.Resources{CPU: 250, Memory: 64 * cluster.MB}
	job := &cluster.Job{ID: 7, Name: hostile, Stages: []cluster.Stage{{Name: "map", Tasks: 2, Request: request}, {Name: "merge", Tasks: 1, Request: request, After: []string{"map"}}}}
	task := func(index, attempt int32) cluster.TaskID {
		return cluster.TaskID{Job: 7, Stage: "map", Index: index, Attempt: attempt}
	}
	after := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	tell(t, s.Board,
		cluster.Event{At: noon, Kind: cluster.UseReported, Use: []cluster.Use{{On: "s", Primary: cluster.Resources{CPU: 1200, Memory: 2 * cluster.GB}}}},
		cluster.Event{At: noon, Kind: cluster.JobSubmitted, Job: job},
		cluster.Event{At: after(1), Kind: cluster.TaskStarted, Task: task(0, 0), On: "s", Request: request},
		cluster.Event{At: after(3), Kind: cluster.TaskKilled, Task: task(0, 0), On: "s", Reason: "reserve short by " + hostile},
		cluster.Event{At: after(20), Kind: cluster.TaskStarted, Task: task(0, 1), On: "s", Request: request},
		cluster.Event{At: after(25), Kind: cluster.TaskFinished, Task: task(0, 1), On: "s"},
		cluster.Event{At: after(26), Kind: cluster.TaskStarted, Task: task(1, 0), On: "s", Request: request})
	s.Board.Short(noon, "the store", errors.New("no space left on device"))
	for i := range 100 {
		s.Trail.Note(Division{At: after(i), Size: cluster.Resources{CPU: 4000, Memory: 8 * cluster.GB}, Primary: cluster.Resources{CPU: 1000, Memory: cluster.GB}, Harvested: cluster.Resources{CPU: 250}, Reserve: cluster.Resources{CPU: 500}})
	}
	for name, text := range map[string]string{"map-0-0-false": "first run", "map-0-1-false": "second run <b>", "map-0-1-true": "to stderr", "map-1-0-false": strings.Repeat("x", tail) + "the end"} {
		if err := os.WriteFile(filepath.Join(s.Jobs.(*jobsOfTest).dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Disks = func() Disks {
		return disksOfTest{[]fabric.Info{{Name: "copy", Parent: hostile, Size: 1 << 30}, {Name: "db", Parent: hostile, Exported: true}, {Name: hostile, Snapshot: true}, {Name: "other"}},
			[]fabric.Lent{{Server: "s", Disk: "0123456789ab", Tier: "ssd", State: "up", Quota: 100 << 30, Free: 5 << 30}, {Server: "t", Disk: "ffff", Tier: "hdd", State: "away", Quota: 1 << 30}},
			fabric.Curation{Paused: hostile, Since: noon, Scan: 12, Pace: 0.25, Next: noon, Policy: upkeep.Default(), Findings: []string{"a block of " + hostile}, Repairs: fabric.Repairs{Waiting: 3, Done: 1, NoDisk: 2},
				Learning: &fabric.Learning{Decisions: 412, Runs: 1, Decision: fabric.Decision{At: after(20), Why: hostile}, Recent: []fabric.Decision{{At: noon, LatencyMS: 2}, {At: after(10), Run: true, LatencyMS: 3.5}, {At: after(20), LatencyMS: 1}}},
				Checked:  fabric.Checked{At: noon, Missing: 2}, Scrubbed: fabric.Scrubbed{Began: noon, Passes: 2}, Damaged: 2,
				Tasks: []fabric.Backlog{{Kind: "rebuild", Waiting: 30, UnderWay: 1, Seconds: 62, Done: 7}, {Kind: "migrate", Waiting: 1, Seconds: -1}, {Kind: "share"}}}}
	}
	s.Learned = func() ([]loads.Learned, dilation.Machine) {
		return []loads.Learned{{Stage: "sort/map", Load: dilation.Vector{0.8, 0.2}, Alone: 1500 * time.Millisecond, Predicted: []float64{1, 1.4}, Measured: []float64{1.1, 1.5}},
			{Stage: hostile, Load: dilation.Vector{0.5, 0.5}, Alone: time.Second, Predicted: []float64{1.2}, Measured: []float64{1.2}}}, dilation.Machine{2, 1}
	}
	x := []float64{0, 1, 2}
	figure := chart.Figure{Panels: []chart.Panel{{Title: "The week", X: "day", Y: "CPU %", Bands: []chart.Band{{Name: "p5-p95", X: x, Low: x, High: x}}, Lines: []chart.Line{{Name: hostile, X: x, Y: x}}}}}
	s.Classes = func() (*Classes, error) {
		return &Classes{Window: cluster.Window{From: noon, Step: time.Hour, Len: 24}, At: noon, Servers: 3, Figures: []chart.Figure{figure},
			Classes: []cluster.Class{{ID: "periodic-1", Pattern: cluster.Periodic, Tenants: []cluster.TenantID{"prod/web"}, Mean: 0.25, Peak: 0.5, Period: 24 * time.Hour}},
			Tenants: []Tenant{{ID: "prod/web", Class: "periodic-1", Pattern: cluster.Periodic, Servers: 3, Mean: 0.25, Peak: 0.5, Why: hostile}},
			Skipped: []SkippedTenant{{"late", "no samples"}},
			Grid:    &Grid{Title: "Servers of " + hostile, Cells: []Cell{{Row: 1, Column: 1, Tenants: 1, Servers: 3, Free: 5 * cluster.GB, Replicas: -1}}, Says: []string{"Well placed."}},
			Changes: []Change{{"prod/web", "is " + hostile}}, Groups: []Reimaged{{ID: "prod/web", Group: "frequent", Reimages: 9, PerMonth: 1.5, Changes: 2}},
			Tenant: func(id cluster.TenantID) (chart.Figure, bool) { return figure, id == "prod/web" }}, nil
	}
	return s
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func post(h http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// views are all views, and what each must say on a busy and on an empty site; a view that needs
// something which an empty site lacks is not found there.
var views = []struct {
	path        string
	busy, empty []string
}{
	{"/", []string{"1.2 cores", "0.25 cores", "No room since 2026-06-01 12:00:00: the store waits: no space left on device.", "Some of what was written is lost: 2 groups damaged", "is 95% full", "ffff of t is away", "/jobs/7", "reserve short by", "Who has the memory", ">32 tasks</a>", "3 repairs to go"},
		[]string{"No job runs or waits", "No task was killed", "No disks are served"}},
	{"/?span=24h", []string{"The last 24 hours"}, []string{"The last 24 hours"}},
	{"/?span=10m&from=1780315210&to=1780315220", []string{"From 2026-06-01 12:00:10 to 2026-06-01 12:00:20", `id="all" href="/?span=10m"`, `data-from="1.78031521e+09"`}, []string{"Show all of it"}},
	{"/?from=x&to=5", []string{"Drag over a chart"}, []string{"Drag over a chart"}},
	{"/?span=nonsense", []string{"The last 10 minutes"}, []string{"The last 10 minutes"}},
	{"/jobs", []string{"/jobs/7", "running", "name: primes"}, []string{"No job has been submitted", "name: primes"}},
	{"/jobs/7", []string{"running, 1 of 2 done", "blocked, 0 of 1 done", "Runs of tasks", "killed", "Cancel this job", "/jobs/7/tasks/map-0"}, nil},
	{"/jobs/7?from=1780315221&to=1780315224", []string{"From 2026-06-01 12:00:21 to 2026-06-01 12:00:24", `id="all" href="/jobs/7"`, `data-axis="spans"`, "<td>map-0</td><td>2026-06-01 12:00:20.0</td><td>5.0</td>"}, nil},
	{"/jobs/7?from=1780315220.5&to=1780315221", []string{"From 2026-06-01 12:00:20.5 to 2026-06-01 12:00:21.0", `data-from="1.7803152205e+09"`, ">12:00:20.6<"}, nil},
	{"/jobs/7?from=1780315220.51&to=1780315220.56", []string{"From 2026-06-01 12:00:20.510 to 2026-06-01 12:00:20.560", ">12:00:20.520<"}, nil},
	{"/jobs/7?from=NaN&to=1e99", []string{"Drag over a chart"}, nil},
	{"/jobs/7?from=5&to=6", []string{"No task ran in this time.", "Show all of it"}, nil},
	{"/jobs/7/tasks", []string{"/jobs/7/tasks/map-99", `asked for &#34;&#34; &#34;&#34;`, "/jobs/7/tasks?stage=&amp;state=&amp;from=100"}, nil},
	{"/jobs/7/tasks?stage=map&state=failed&from=100", []string{"/jobs/7/tasks/map-199", `asked for &#34;map&#34; &#34;failed&#34;`, "/jobs/7/tasks?stage=map&amp;state=failed&amp;from=0", "/jobs/7/tasks?stage=map&amp;state=failed&amp;from=200", "Show all stages"}, nil},
	{"/jobs/7/tasks?from=1000", []string{"There is no such task.", "from=900"}, nil},
	{"/jobs/7/tasks/map-0", []string{"second run &lt;b&gt;", "attempt=1", "finished", "<dd>0</dd>", "1m30s", "2026-06-01 11:58:30"}, nil},
	{"/jobs/7/tasks/map-0?attempt=1", []string{"first run", "killed", "<dd>143</dd>", "1m0s"}, nil},
	{"/jobs/7/tasks/map-0?stream=stderr", []string{"to stderr"}, nil},
	{"/jobs/7/tasks/map-1", []string{"xthe end", "The first 7 bytes are left out", "/jobs/7/tasks/map-1/output?follow=true&amp;stream=stdout&amp;offset=65543"}, nil},
	{"/jobs/7/tasks/merge-0", []string{"It has not run: it comes after map."}, nil},
	{"/tenants", []string{"periodic-1", "25.0%", "24.0 h", "/tenants/prod%2Fweb", "late: no samples", "The week", "Since the day before", "Well placed.", "<b>5 GiB</b> free<br>3 servers of 1 tenant</td>", "Most often", "77 replicas", "Of 40 groups with two replicas or more, 30 keep every wish. Different racks: 35 of 40.", "frequent", "1.500"}, []string{"There is not enough history yet", "gleaner history import"}},
	{"/tenants/prod/web", []string{"3 servers", "The week"}, nil},
	// 1 + (0.8*0.5/2 + 0.2*0.5/1) beside one of the other, and one more of itself: + (0.8*0.8/2 + 0.2*0.2)
	{"/slowdown", []string{"2 cores and 1 disk", "sort/map: 1 task takes 1.30 times", "80%", "1.50 s", "Predicted against measured"}, []string{"Nothing was learned yet"}},
	{"/slowdown?n-sort%2fmap=2", []string{"each of 2 tasks takes 1.66 times", "3 tasks at once"}, []string{"Nothing was learned yet"}},
	{"/slowdown?n-sort%2fmap=x&n-other=9", []string{"2 tasks at once"}, []string{"Nothing was learned yet"}},
	{"/slowdown?n-sort%2fmap=999999999", []string{"65 tasks at once"}, []string{"Nothing was learned yet"}},
	{"/storage", []string{"snapshot of", "vDisk of 1 GiB", "in use", "0123456789ab", "<td class=\"n\">95 GiB</td><td class=\"n\">5 GiB</td>", "Space by tier", "12 scans so far", "<dd>since 2026-06-01 12:00:00</dd>", "25% of the time", "3 groups", "1 done, 0 times failed", "1m2s", "not known yet", "Nothing of: share.", "a block of", "2 replicas missing", "2 passes before", "412 decisions in all, 1 move", "cold data is moved down", `<td>3.5`}, []string{"No disks are served"}},
	{"/storage?from=1780315200&to=1780315205", []string{"From 2026-06-01 12:00:00 to 2026-06-01 12:00:05", `<td>2</td>`}, []string{"No disks are served"}},
	{"/storage/db", []string{"vDisk in", "in use", "9 blocks in 5 groups", "1 of 5 groups cannot be read now", "out of reach", "with 1 good replica</td><td class=\"n\">2<", "3 MiB", "Of 5 groups with two replicas or more, 4 keep every wish.", "It is read through", "</a>, old (removed), whose groups"}, nil},
	{"/storage/other", []string{"too many groups to count", "gleaner disk stat other"}, nil},
	{"/traces", []string{"/traces/job", "Add a program"}, []string{"Add a program"}},
	{"/traces/job", []string{"repeat 2*n times:", "75.0%", "uuid of client create#1", "The target held n = 8.", "nodes of client"}, []string{"Listing"}},
	{"/lab", []string{"1 of 2 have a result", "gleaner reproduce fig13", "2.5 s", "Figure 13"}, []string{"/lab/scc"}},
	{"/lab/fig13", []string{"1,181 s", "And 40 more rows", "at 10%", "Job time by load", "And 3 pictures more"}, []string{"Job times"}},
	{"/lab/scc", []string{"No result of it is kept here"}, []string{"gleaner reproduce scc"}},
	{"/plan?example=productsearch&level=0", []string{"Product search at 0.1 times the SLA", "USD", "proven cheapest", "Cost against SLA"}, []string{"Cost against SLA"}},
}

func TestViews(t *testing.T) {
	for name, site := range map[string]*Site{"busy": busy(t), "empty": empty(t)} {
		h := site.Handler()
		for _, v := range views {
			want := v.busy
			if name == "empty" {
				want = v.empty
			}
			w := get(h, v.path)
			if want == nil {
				if w.Code != http.StatusNotFound {
					t.Errorf("%s %s: %d, want 404", name, v.path, w.Code)
				}
				continue
			}
			for _, words := range want {
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), words) {
					t.Errorf("%s %s: %d, and it does not say %q", name, v.path, w.Code, words)
				}
			}
			checkMarkup(t, name+" "+v.path, w.Body.String())
		}
	}
}

// maxWeight is what a view and all that it loads may weigh.
const maxWeight = 300 << 10

var inline = regexp.MustCompile(`(?i)<style|\sstyle=|<script(?:[^>]*)>[^<]|\son[a-z]+=|javascript:|https?://`)

// checkMarkup checks what holds for every view: it is well formed and escapes what it is given,
// has nothing inline, every chart has a title, axes and a table, and it is light.
func checkMarkup(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Errorf("%s is not well formed: %v", name, err)
			break
		}
	}
	if strings.Contains(text, "<img") || strings.Contains(text, "ZgotmplZ") {
		t.Errorf("%s does not escape a name", name)
	}
	escaped := strings.ReplaceAll(text, "onerror=alert", "") // escaped, as was just checked
	if found := inline.FindString(escaped); found != "" {
		t.Errorf("%s has %q", name, found)
	}
	charts := strings.Count(text, "<figure")
	if charts != strings.Count(text, "<figcaption>") || charts != strings.Count(text, "As a table") || 2*charts > strings.Count(text, "<svg") {
		t.Errorf("%s has %d charts; some have no title, table or drawing", name, charts)
	}
	if 2*strings.Count(text, `<p class="reading">`) != strings.Count(text, "data-axis=") {
		t.Errorf("%s has no room for what is read off its charts", name)
	}
	weight := len(text)
	all, err := fs.Glob(assets, "assets/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, asset := range all {
		data, err := fs.ReadFile(assets, asset)
		if err != nil {
			t.Fatal(err)
		}
		weight += len(data)
	}
	if weight > maxWeight {
		t.Errorf("%s weighs %d bytes", name, weight)
	}
}

// A job says why it waits or did not finish, wherever it is shown, and nothing twice.
func TestWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		cores     cluster.MilliCPU
		end       string
		cancelled bool
		job, task string // what their views say
	}{
		"waiting":   {8, "", false, ">waiting</span>: a task of pic needs 8.00 cores, and 3.50 of 4.00 cores are free", "It has not run: a task of pic needs 8.00 cores"},
		"failed":    {1, "job-7/pic-0 failed 2 times: exit code 1", false, ">failed</span>: job-7/pic-0 failed 2 times: exit code 1</p>", "It has not run: its job has ended."},
		"cancelled": {1, "cancelled", true, ">cancelled</span></p>", "It has not run: its job has ended."},
	} {
		s := empty(t)
		tell(t, s.Board, cluster.Event{At: noon, Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: 7, Stages: []cluster.Stage{{Name: "pic", Tasks: 1, Request: cluster.Resources{CPU: tc.cores * cluster.Core}}}}})
		shown := []string{"/", "/jobs"}
		if tc.end != "" {
			shown = shown[1:] // the overview has those that have not ended
			if err := s.Board.Action(cluster.Action{Kind: cluster.FinishJob, ID: 7, Reason: tc.end, Cancelled: tc.cancelled}); err != nil {
				t.Fatal(err)
			}
		}
		h := s.Handler()
		for path, want := range map[string]string{"/jobs/7": tc.job, "/jobs/7/tasks/pic-0": tc.task} {
			if text := get(h, path).Body.String(); !strings.Contains(text, want) {
				t.Errorf("%s: %s does not say %q", name, path, want)
			}
		}
		_, why, _ := strings.Cut(strings.TrimSuffix(tc.job, "</p>"), "</span>: ")
		for _, path := range shown {
			if text := get(h, path).Body.String(); !strings.Contains(text, why) || strings.Contains(text, ">cancelled</td>") {
				t.Errorf("%s: %s does not say %q", name, path, why)
			}
		}
	}
}

// The link to a tenant leads there, whatever its name.
func TestLinksToTenants(t *testing.T) {
	for _, id := range []cluster.TenantID{"prod/web", "50%", "a?b=c", "a#b", "a%2fb", "a//b", hostile} {
		s := empty(t)
		s.Classes = func() (*Classes, error) {
			return &Classes{Tenants: []Tenant{{ID: id}}, Tenant: func(asked cluster.TenantID) (chart.Figure, bool) { return chart.Figure{}, asked == id }}, nil
		}
		h := s.Handler()
		link := regexp.MustCompile(`href="(/tenants/[^"]+)"`).FindStringSubmatch(get(h, "/tenants").Body.String())
		if link == nil {
			t.Fatalf("%s has no link", id)
		}
		to, err := url.Parse(html.UnescapeString(link[1]))
		if err != nil {
			t.Fatal(err)
		}
		if w := get(h, to.EscapedPath()); w.Code != http.StatusOK || to.RawQuery != "" || to.Fragment != "" {
			t.Errorf("%s: %s leads to %d", id, link[1], w.Code)
		}
	}
}

func TestSubmitAndCancel(t *testing.T) {
	s := busy(t)
	h, jobs := s.Handler(), s.Jobs.(*jobsOfTest)
	if w := post(h, "/jobs", url.Values{"job": {"name: j\r\nstages: []\r\n"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/jobs/7" || jobs.submitted != "name: j\nstages: []\n" {
		t.Errorf("%d to %s with %q", w.Code, w.Header().Get("Location"), jobs.submitted)
	}
	for text, code := range map[string]int{"bad": http.StatusUnprocessableEntity, "full": http.StatusInternalServerError} {
		w := post(h, "/jobs", url.Values{"job": {text}})
		if w.Code != code || !strings.Contains(w.Body.String(), `role="alert"`) || !strings.Contains(w.Body.String(), ">"+text+"</textarea>") {
			t.Errorf("%s: %d %s", text, w.Code, w.Body)
		}
		checkMarkup(t, text, w.Body.String())
	}
	if w := post(h, "/jobs/7/cancel", nil); w.Code != http.StatusSeeOther || jobs.cancelled != 7 {
		t.Errorf("%d; cancelled %s", w.Code, jobs.cancelled)
	}
	if w := post(h, "/jobs/8/cancel", nil); w.Code != http.StatusNotFound {
		t.Errorf("a job that is not there: %d", w.Code)
	}
	if w := get(h, "/jobs/7/tasks/map-1/output"); w.Body.String() != "output of 7/map-1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestKeepAndFillAProgram(t *testing.T) {
	s := busy(t)
	h, traces := s.Handler(), s.Traces.(*tracesOfTest)
	if w := post(h, "/traces", url.Values{"name": {"job"}, "program": {"a\r\nb"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/traces/job" || traces.saved != "job=a\nb" {
		t.Errorf("%d, saved %q", w.Code, traces.saved)
	}
	if w := post(h, "/traces/job/fill", url.Values{"method": {"create"}, "argument": {"uuid"}, "value": {"x"}}); w.Code != http.StatusSeeOther || traces.filled != "job create uuid x" {
		t.Errorf("%d, filled %q", w.Code, traces.filled)
	}
	for path, form := range map[string]url.Values{"/traces": {"program": {"bad"}}, "/traces/job/fill": {"value": {"bad"}}} {
		w := post(h, path, form)
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `role="alert"`) {
			t.Errorf("%s: %d", path, w.Code)
		}
		checkMarkup(t, path, w.Body.String())
	}
}

// An experiment without a result has the whole command that leaves one where it is looked for.
func TestNoResultYet(t *testing.T) {
	if text := get(busy(t).Handler(), "/lab/scc").Body.String(); !strings.Contains(text, "gleaner reproduce scc --quick --out /data/lab") {
		t.Error(text)
	}
}

// A chart that does not have all tasks says so.
func TestGanttOfManyTasks(t *testing.T) {
	var runs []board.Run
	for i := range ganttRows + 1 {
		title := gantt(runs, noon).Title
		if title != "Runs of tasks" {
			t.Errorf("%d tasks: %s", i, title)
		}
		runs = append(runs, board.Run{Task: cluster.TaskID{Stage: "map", Index: int32(i)}, From: noon}, board.Run{Task: cluster.TaskID{Stage: "map", Index: int32(i), Attempt: 1}, From: noon})
	}
	if p := gantt(runs, noon); p.Title != "Runs of the 40 tasks that ran last" || len(p.Spans.Rows) != ganttRows || p.Spans.Rows[0] != "map-1" {
		t.Errorf("%s: %v", p.Title, p.Spans.Rows)
	}
}

// A policy that heeds no primary is a warning.
func TestUnawarePolicy(t *testing.T) {
	s := empty(t)
	s.Board.Unaware = true
	if w := get(s.Handler(), "/"); !strings.Contains(w.Body.String(), "The policy knows nothing of the primary") {
		t.Error("the overview does not say so")
	}
}

// A form that cannot be read is not an empty file.
func TestFormThatCannotBeRead(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/jobs", strings.NewReader("job=%zz"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if empty(t).Handler().ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the form cannot be read") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWholeDisks(t *testing.T) {
	for _, tc := range []struct {
		d    fabric.Stat
		want string
	}{
		{fabric.Stat{}, "Nothing is written"},
		{fabric.Stat{Chain: []string{"monday"}}, "Nothing was written to it since it reads through monday."},
		{fabric.Stat{Groups: 2, States: map[string]int{fabric.Damaged: 1}}, "1 of 2 groups lost some of what was written"},
		{fabric.Stat{Info: fabric.Info{Replicas: 3, Servers: 3}, Groups: 2, Have: map[int]int{3: 2}}, "Whole"},
		{fabric.Stat{Info: fabric.Info{Replicas: 3, Servers: 3}, Groups: 2, Have: map[int]int{3: 1, 2: 1}}, "1 of 2 groups lack some of the 3 replicas that are wanted; upkeep makes them"},
		{fabric.Stat{Info: fabric.Info{Replicas: 3, Servers: 1}, Groups: 2, Have: map[int]int{1: 2}}, "each is to be on another server, and 1 server can hold some"},
		{fabric.Stat{Info: fabric.Info{Replicas: 3, Servers: 3}, Groups: 2, Have: map[int]int{3: 1, 2: 1}, States: map[string]int{fabric.OutOfReach: 1}}, "1 of 2 groups cannot be read now"},
	} {
		if got := (vdiskData{Stat: tc.d}).Whole(); !strings.Contains(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	h := busy(t).Handler()
	for _, path := range []string{"/jobs/8", "/jobs/x", "/jobs/99999999999999999999", "/jobs/7/tasks/map", "/jobs/7/tasks/map-2", "/jobs/7/tasks/map--1", "/jobs/7/tasks/-0", "/jobs/7/tasks?stage=none", "/jobs/7/tasks?state=lost", "/jobs/7/tasks?from=-1", "/jobs/7/tasks?from=x", "/jobs/7/tasks/map-0?attempt=9", "/jobs/7/tasks/map-0?attempt=x", "/jobs/7/tasks/map-0?attempt=0",
		"/jobs/7/tasks/..%2f..%2fetc-0", "/tenants/nobody", "/tenants/", "/traces/none", "/lab/none", "/nothing", "/storage/none", "/storage/", "/assets", "/assets/", "/assets/nothing", "/templates/job.html"} {
		if w := get(h, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// What cannot be read is said in the frame of the page.
func TestWhatDoesNotWork(t *testing.T) {
	s := busy(t)
	s.Experiments = func() ([]Experiment, error) { return nil, errors.New("index.json: unexpected end") }
	h := s.Handler()
	for _, path := range []string{"/lab", "/lab/fig14"} {
		w := get(h, path)
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "<p>index.json: unexpected end</p>") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		checkMarkup(t, path, w.Body.String())
	}
}

// While the history is being classified the view says so, and brings itself up to date.
func TestClassesThatAreNotReady(t *testing.T) {
	s := empty(t)
	s.Classes = func() (*Classes, error) { return nil, ErrNotYet }
	h := s.Handler()
	if text := get(h, "/tenants").Body.String(); !strings.Contains(text, "is being classified") || !strings.Contains(text, "live.js") {
		t.Error(text)
	}
	s.Classes = func() (*Classes, error) { return nil, errors.New("the store is damaged") }
	if w := get(h, "/tenants"); w.Code != http.StatusInternalServerError {
		t.Errorf("%d", w.Code)
	}
}

// A task that was killed has its runs in one row.
func TestGantt(t *testing.T) {
	p := gantt(busy(t).Board.Runs(7), noon.Add(time.Minute))
	head, rows := p.Table()
	var got []string
	for _, r := range append([][]string{head}, rows...) {
		got = append(got, strings.Join(r, "|"))
	}
	want := "task|from|for, seconds|end\nmap-0|2026-06-01 12:00:01.0|2.0|killed\nmap-0|2026-06-01 12:00:20.0|5.0|finished\nmap-1|2026-06-01 12:00:26.0|34.0|running"
	if strings.Join(got, "\n") != want || len(p.Spans.Rows) != 2 {
		t.Errorf("%d rows\n%s\nwant\n%s", len(p.Spans.Rows), strings.Join(got, "\n"), want)
	}
	var many []board.Run
	for i := range int32(500) {
		many = append(many, board.Run{Task: cluster.TaskID{Stage: "map", Index: i}, From: noon})
	}
	if p := gantt(many, noon); len(p.Spans.Rows) != ganttRows || p.Spans.Rows[ganttRows-1] != "map-499" {
		t.Errorf("%d rows to %s", len(p.Spans.Rows), p.Spans.Rows[len(p.Spans.Rows)-1])
	}
}

// A day of samples leaves as many points as ten minutes, and each is the mean of its step.
func TestTrailIsBounded(t *testing.T) {
	trail := NewTrail()
	for i := range 2 * 86400 {
		trail.Note(Division{At: noon.Add(time.Duration(i) * time.Second), Size: cluster.Resources{CPU: 4000}, Primary: cluster.Resources{CPU: cluster.MilliCPU(1000 * (i % 2))}})
	}
	for i, span := range Spans {
		means := trail.last(i)
		if len(means) != points || means[points-1].at.Sub(means[0].at) != span.Time-span.Time/points {
			t.Errorf("%s: %d points from %s to %s", span.Name, len(means), means[0].at, means[len(means)-1].at)
		}
		if got := means[10].used[0]; got < 0.39 || got > 0.61 {
			t.Errorf("%s: mean %g, want about 0.5", span.Name, got)
		}
	}
}

// The parts add up to the whole, however they were measured; where nothing was
// measured there is a gap.
func TestPartsOfTheWhole(t *testing.T) {
	for _, m := range []mean{
		{size: [2]float64{4}, used: [2]float64{1}, gleaned: [2]float64{2}, kept: [2]float64{0.5}},
		{size: [2]float64{4}, used: [2]float64{3.8}, gleaned: [2]float64{2}, kept: [2]float64{0.5}},
		{size: [2]float64{4}, used: [2]float64{5}},
		{size: [2]float64{4}, used: [2]float64{-1}},
	} {
		sum := 0.0
		for _, part := range m.parts(0) {
			if part < 0 {
				t.Errorf("%+v: a part is %g", m, part)
			}
			sum += part
		}
		if sum != 4 {
			t.Errorf("%+v: the parts are %g together", m, sum)
		}
	}
	trail := NewTrail()
	for _, after := range []time.Duration{0, 5, 300, 305} {
		trail.Note(Division{At: noon.Add(after * time.Second), Size: cluster.Resources{CPU: 4000}})
	}
	if idle := trail.panels(0)[0].Stack.Layers[3].Values; len(idle) != 5 || idle[2] == idle[2] {
		t.Errorf("idle is %v, want a gap in the middle", idle)
	}
}

func TestTrees(t *testing.T) {
	var show func(all []*diskTree) string
	show = func(all []*diskTree) (text string) {
		for _, d := range all {
			text += d.Name + "(" + show(d.Children) + ")"
		}
		return text
	}
	got := show(trees([]fabric.Info{{Name: "a", Parent: "b"}, {Name: "b", Parent: "c"}, {Name: "c"}, {Name: "d", Parent: "gone"}, {Name: "e", Parent: "b"}}))
	if want := "c(b(a()e()))gone(d())"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A browser is told at once and every two seconds; the stream ends with its reader.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		w := httptest.NewRecorder()
		get := httptest.NewRequest(http.MethodGet, "/events", nil).WithContext(ctx)
		empty(t).Handler().ServeHTTP(w, get)
		if got := strings.Count(w.Body.String(), "event: tick\ndata:\n\n"); got != 3 || w.Header().Get("Content-Type") != "text/event-stream" || !w.Flushed {
			t.Errorf("%d ticks: %q", got, w.Body)
		}
	})
}

// The page's colours are those of the charts, and docs/design.md has both.
func TestThePageAndTheChartsShareColours(t *testing.T) {
	css, err := fs.ReadFile(assets, "assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	design, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, _ := strings.Cut(string(css), "prefers-color-scheme: dark")
	for i, colour := range chart.Palette() {
		if !strings.Contains(light, fmt.Sprintf("--c%d: %s;", i, colour)) {
			t.Errorf("colour %d is not %s", i, colour)
		}
		m := regexp.MustCompile(fmt.Sprintf(`--c%d: (#[0-9a-f]{6});`, i)).FindStringSubmatch(dark)
		if m == nil || !strings.Contains(string(design), fmt.Sprintf("| %d | `%s` | `%s` |", i, colour, m[1])) {
			t.Errorf("docs/design.md has other colours %d", i)
		}
		for _, class := range []string{"k", "f", "l"} {
			if !strings.Contains(light+dark, fmt.Sprintf(".%s%d {", class, i)) {
				t.Errorf("there is no class %s%d", class, i)
			}
		}
	}
}

// BenchmarkOverview is the first view of many servers.
func BenchmarkOverview(b *testing.B) {
	b.Run("5000servers", func(b *testing.B) {
		s := busy(b)
		for i := range 5000 {
			tell(b, s.Board, cluster.Event{Kind: cluster.ServerJoined, Server: &cluster.Server{ID: cluster.ServerID(fmt.Sprint("s", i)), CPU: 4 * cluster.Core, Memory: 8 * cluster.GB}})
		}
		h := s.Handler()
		for b.Loop() {
			if w := get(h, "/"); w.Code != http.StatusOK {
				b.Fatal(w.Code)
			}
		}
	})
}

// BenchmarkTenants is the view of a month of many servers.
func BenchmarkTenants(b *testing.B) {
	b.Run("5000servers", func(b *testing.B) {
		h := manyTenants(b).Handler()
		for b.Loop() {
			if w := get(h, "/tenants"); w.Code != http.StatusOK {
				b.Fatal(w.Code)
			}
		}
	})
}

// A long line is drawn with fewer points, and keeps its extremes; its table has fewer rows.
func TestLongLinesAreThinned(t *testing.T) {
	l := chart.Line{Name: "cpu"}
	for i := range 10000 {
		l.X, l.Y = append(l.X, float64(i)), append(l.Y, float64(i%100))
	}
	l.Y[7777], l.Y[3333] = 1000, -1000
	got := thin(l)
	if len(got.X) > mostPoints || slices.Max(got.Y) != 1000 || slices.Min(got.Y) != -1000 || !slices.IsSorted(got.X) {
		t.Errorf("%d points from %g to %g", len(got.X), slices.Min(got.Y), slices.Max(got.Y))
	}
	d, err := draw(chart.Panel{X: "x", Y: "y", Lines: []chart.Line{l}}, half, usual)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Rows) > mostRows || d.Every != 167 || d.Rows[1][0] != "167" {
		t.Errorf("%d rows, one of %d: %v", len(d.Rows), d.Every, d.Rows[1])
	}
	if short := (chart.Line{X: l.X[:mostPoints], Y: l.Y[:mostPoints]}); len(thin(short).X) != mostPoints {
		t.Error("a short line is thinned")
	}
}

// manyTenants is the site of a gleaner that has a month of 5,000 servers.
func manyTenants(t testing.TB) *Site {
	s := empty(t)
	all := Classes{Window: cluster.Window{From: noon, Step: 2 * time.Minute, Len: 20160}}
	week, band := chart.Line{Name: "mean"}, chart.Band{Name: "p5-p95"}
	for i := range 168 {
		at := 40 + float64(i*7919%1000)/98.7
		week.X, week.Y = append(week.X, float64(i)), append(week.Y, at)
		band.Low, band.High = append(band.Low, at-float64(i*31%77)/3), append(band.High, at+float64(i*17%71)/3)
	}
	band.X = week.X
	for i := range 30 {
		all.Classes = append(all.Classes, cluster.Class{ID: fmt.Sprint("unpredictable-", i)})
		all.Figures = append(all.Figures, chart.Figure{Panels: []chart.Panel{{Title: "The week", X: "hour", Y: "CPU %", Lines: []chart.Line{week}, Bands: []chart.Band{band}}}})
	}
	for i := range 2000 {
		all.Tenants = append(all.Tenants, Tenant{ID: cluster.TenantID(fmt.Sprint("production/frontend-", i)), Class: "unpredictable-3", Why: "moves by 20.7 points, over the 3.0 that count, and 31.2 h explains 5% of all but noise"})
	}
	s.Classes = func() (*Classes, error) { return &all, nil }
	return s
}

// A month of 5,000 servers makes no view heavy.
func TestManyTenantsAreLight(t *testing.T) {
	w := get(manyTenants(t).Handler(), "/tenants")
	checkMarkup(t, "tenants", w.Body.String())
	if text := w.Body.String(); !strings.Contains(text, "And 20 more charts") || !strings.Contains(text, "And 1850 more") {
		t.Error("it does not say what is left out")
	}
}

// Nothing that a user may have many of makes a view heavy: jobs, stages that come after all others, tasks, disks, vDisks and stages that
// were learned. Each view says what it leaves out, and has what matters first.
func TestManyOfEverythingIsLight(t *testing.T) {
	s := empty(t)
	request := cluster.Resources{CPU: 250, Memory: 64 * cluster.MB}
	dense := &cluster.Job{ID: 1, Name: "dense"}
	var before []string
	for i := range 1000 {
		name := fmt.Sprint("stage-with-a-name-", i)
		dense.Stages = append(dense.Stages, cluster.Stage{Name: name, Tasks: 1000, Request: request, After: before[:i:i]})
		before = append(before, name)
	}
	tell(t, s.Board, cluster.Event{At: noon, Kind: cluster.JobSubmitted, Job: dense})
	for i := range 5000 {
		tell(t, s.Board, cluster.Event{At: noon, Kind: cluster.JobSubmitted, Job: &cluster.Job{ID: cluster.JobID(i + 2), Name: strings.Repeat("n", 64), Stages: []cluster.Stage{{Name: "s", Tasks: 1, Request: request}}}})
	}
	lent := []fabric.Lent{}
	for i := range 3000 {
		lent = append(lent, fabric.Lent{Server: fmt.Sprint("server-", i), Disk: fmt.Sprintf("%032x", i), Tier: "ssd", State: "up", Quota: 100, Free: 50})
	}
	lent[2500].State, lent[2600].Free = "away", 20
	vdisks := []fabric.Info{{Name: "root", Snapshot: true}}
	for i := range 3000 {
		vdisks = append(vdisks, fabric.Info{Name: fmt.Sprint("vdisk-", i), Parent: "root", Size: 1 << 30})
	}
	learned := []loads.Learned{}
	for i := range 2000 {
		learned = append(learned, loads.Learned{Stage: fmt.Sprint("job/stage-", i), Load: dilation.Vector{0.8, 0.2}, Alone: time.Second, Predicted: []float64{1, 1.4}, Measured: []float64{1.1, 1.5}})
	}
	s.Traces = &tracesOfTest{}
	s.Disks = func() Disks { return disksOfTest{vdisks, lent, fabric.Curation{}} }
	s.Learned = func() ([]loads.Learned, dilation.Machine) { return learned, dilation.Machine{2, 1} }
	h := s.Handler()
	for path, said := range map[string][]string{
		"/":            {"And 4951 jobs more", "And 2900 disks more", "server-2500<", "server-2600<"},
		"/jobs":        {"And 4801 jobs more", "/jobs/5001\""},
		"/jobs/1":      {"Its 1000 stages and their order are too much to draw", "And 900 stages more", "and 91 more"},
		"/storage":     {"And 2801 vDisks more", "And 2900 disks more", "vdisk-198<"},
		"/slowdown":    {"job/stage-0"},
		"/traces/long": {"And 16000 lines more"},
	} {
		text := get(h, path).Body.String()
		checkMarkup(t, path, text)
		for _, words := range said {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q", path, words)
			}
		}
	}
	for i := range lent {
		lent[i].State = "away"
	}
	if text := get(h, "/").Body.String(); strings.Count(text, "is away") > shownWarnings || !strings.Contains(text, "more like these") {
		t.Errorf("it warns %d times", strings.Count(text, "is away"))
	}
}

// A day of samples and updates leaves the heap as it was: a day has as many samples as here, and of its updates as many as tell.
func TestADayOfUpdatesKeepsTheHeap(t *testing.T) {
	s := busy(t)
	h := s.Handler()
	at := noon
	live := func(updates int) uint64 {
		for range updates {
			for range 86400 / 40 {
				at = at.Add(time.Second)
				s.Trail.Note(Division{At: at, Size: cluster.Resources{CPU: 4000}, Primary: cluster.Resources{CPU: 1000}})
			}
			for _, path := range []string{"/", "/jobs/7", "/storage"} {
				if w := get(h, path); w.Code != http.StatusOK {
					t.Fatal(w.Code)
				}
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live(5)
	if after := live(40); after > before+before/10+1<<20 {
		t.Errorf("%d bytes before, %d after", before, after)
	}
}

// Columns of a result are set as figures only if all of their cells are.
func TestFiguresAndText(t *testing.T) {
	table := Table{Rows: [][]string{{"1,181 s", "-", "12", "", "-3.5%", "213 296 456", "PT"}, {"~40 ms", "5", "two servers", "", "1.5 to 2.5 s", "8", "1"}, {"< 3"}}}
	for i, want := range []bool{true, true, false, false, true, false, false, false} {
		if table.Figures(i) != want {
			t.Errorf("column %d: %v", i, !want)
		}
	}
}
