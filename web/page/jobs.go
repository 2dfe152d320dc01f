package page

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/input"
)

//go:embed sample.yaml
var sample string

// jobsData is what the list of jobs shows.
type jobsData struct {
	Jobs  []jobRow // the newest first
	More  int      // jobs that are not shown
	Now   time.Time
	Text  string // in the form
	Wrong string // what is wrong with it
}

// A jobRow is a job, and why it did not finish or what it waits for.
type jobRow struct {
	board.Job
	Why string
}

func (s *Site) rows(jobs []board.Job) []jobRow {
	status := s.Board.Status()
	rows := make([]jobRow, len(jobs))
	for i, j := range jobs {
		rows[i] = jobRow{j, status.Why(&j, time.UTC)}
	}
	return rows
}

func (s *Site) jobs(w http.ResponseWriter, _ *http.Request) {
	s.showJobs(w, http.StatusOK, jobsData{Text: sample})
}

func (s *Site) showJobs(w http.ResponseWriter, code int, d jobsData) {
	all := s.Board.Jobs()
	slices.Reverse(all)
	d.Jobs, d.More, d.Now = s.rows(shown(all, shownJobs)), max(len(all)-shownJobs, 0), time.Now()
	show(w, code, "jobs", view{Title: "Jobs", At: "/jobs", Live: true, Data: d})
}

// submit accepts the job file in the form, or shows the form again with what is wrong.
func (s *Site) submit(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.showJobs(w, http.StatusBadRequest, jobsData{Text: sample, Wrong: "the form cannot be read: " + err.Error()})
		return
	}
	text := strings.ReplaceAll(r.PostFormValue("job"), "\r\n", "\n") // as a form sends lines
	id, err := s.Jobs.Submit(r.Context(), text)
	switch {
	case input.Is(err):
		s.showJobs(w, http.StatusUnprocessableEntity, jobsData{Text: text, Wrong: err.Error()})
	case err != nil:
		s.showJobs(w, http.StatusInternalServerError, jobsData{Text: text, Wrong: err.Error()})
	default:
		http.Redirect(w, r, fmt.Sprintf("/jobs/%d", id), http.StatusSeeOther)
	}
}

// asked is the job that a request names. If there is none it says so.
func (s *Site) asked(w http.ResponseWriter, r *http.Request) (board.Job, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err == nil {
		if j, known := s.Board.Job(cluster.JobID(id)); known {
			return j, true
		}
	}
	missing(w, "There is no job "+r.PathValue("id")+". Jobs are forgotten some days after their end.")
	return board.Job{}, false
}

// jobData is what the view of a job shows.
type jobData struct {
	jobRow
	Now   time.Time
	Graph template.HTML // empty if there is too much to draw
	Few   []listedStage
	Rest  int      // stages that are not shown
	Gantt *drawing // nil if no run is known, or none in the range of Zoom
	Zoom  *zoom
	Runs  []runRow // the newest first
	More  int      // runs that are not shown
}

// A listedStage is a stage, with some of those that it comes after.
type listedStage struct {
	board.Stage
	Before []string
	Others int // that it also comes after
}

// listedStages are the stages that are shown: of many, those first that have not finished.
func listedStages(stages []board.Stage) (rows []listedStage, more int) {
	if len(stages) > mostStages {
		done := func(st board.Stage) bool { return st.State == board.Finished }
		finished := slices.DeleteFunc(slices.Clone(stages), func(st board.Stage) bool { return !done(st) })
		stages = append(slices.DeleteFunc(slices.Clone(stages), done), finished...)
	}
	for _, st := range shown(stages, mostStages) {
		rows = append(rows, listedStage{st, shown(st.After, shownBefore), max(len(st.After)-shownBefore, 0)})
	}
	return rows, max(len(stages)-mostStages, 0)
}

// A runRow is one run with the address of its log.
type runRow struct {
	board.Run
	Name string // of the task within its job
}

// Attempt is the number of the run, from 1.
func (r runRow) Attempt() int32 { return r.Task.Attempt + 1 }

// Most that is shown: jobs of the list; of a job, rows of the chart and of the table of its runs, its stages, those that one comes after,
// and the boxes and arrows of its graph.
const (
	shownJobs   = 200
	ganttRows   = 40
	tableRuns   = 100
	mostStages  = 100
	shownBefore = 8
	graphBoxes  = 60
	graphArrows = 200
)

func (s *Site) job(w http.ResponseWriter, r *http.Request) {
	j, ok := s.asked(w, r)
	if !ok {
		return
	}
	d := jobData{jobRow: s.rows([]board.Job{j})[0], Now: time.Now(), Zoom: zoomOf(r)}
	runs := s.Board.Runs(j.ID)
	for i := len(runs) - 1; i >= 0; i-- {
		if len(d.Runs) < tableRuns {
			d.Runs = append(d.Runs, runRow{runs[i], taskName(runs[i].Task)})
		}
	}
	d.More = len(runs) - len(d.Runs)
	err := d.draw(runs)
	if err != nil {
		failed(w, err)
		return
	}
	show(w, http.StatusOK, "job", view{Title: fmt.Sprintf("%s (%s)", j.Name, j.ID), At: "/jobs", Live: true, Data: d})
}

func taskName(t cluster.TaskID) string { return fmt.Sprintf("%s-%d", t.Stage, t.Index) }

func (d *jobData) draw(runs []board.Run) error {
	d.Few, d.Rest = listedStages(d.Stages)
	arrows := 0
	for _, st := range d.Stages {
		arrows += len(st.After)
	}
	if len(d.Stages) <= graphBoxes && arrows <= graphArrows {
		var svg strings.Builder
		if err := graph(d.Stages).WriteThemed(&svg); err != nil {
			return err
		}
		d.Graph = template.HTML(svg.String()) // chart escapes its texts
	}
	panel := d.Zoom.into([]chart.Panel{gantt(d.Zoom.runs(runs, d.Now), d.Now)})[0]
	if len(panel.Spans.Rows) == 0 {
		return nil
	}
	gantt, err := draw(panel, full, 0.9+0.2*float64(len(panel.Spans.Rows)))
	d.Gantt = &gantt
	return err
}

// graph is a job's stages and what comes after what.
func graph(stages []board.Stage) chart.Graph {
	var g chart.Graph
	index := map[string]int{}
	for i, st := range stages {
		index[st.Name] = i
	}
	for _, st := range stages {
		n := chart.Node{Name: st.Name, Note: fmt.Sprintf("%s, %d of %d done", st.State, st.Finished, st.Tasks), Colour: stateColour(st.State)}
		for _, before := range st.After {
			n.After = append(n.After, index[before])
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

// gantt has a row for each of the tasks that ran last, and a span for each of their
// runs: a task that was killed has another in the same row.
func gantt(runs []board.Run, now time.Time) chart.Panel {
	rows := map[string]int{}
	p := chart.Panel{Title: "Runs of tasks", X: "time (UTC)", Y: "task", Time: true}
	for _, r := range slices.Backward(runs) {
		name := taskName(r.Task)
		if _, there := rows[name]; !there && len(rows) == ganttRows {
			p.Title = fmt.Sprintf("Runs of the %d tasks that ran last", ganttRows)
			break
		}
		rows[name] = 0
	}
	seen := map[board.State]bool{}
	for _, r := range runs {
		name := taskName(r.Task)
		if _, shown := rows[name]; !shown {
			continue
		}
		if !slices.Contains(p.Spans.Rows, name) {
			rows[name] = len(p.Spans.Rows)
			p.Spans.Rows = append(p.Spans.Rows, name)
		}
		to := r.To
		if to.IsZero() {
			to = now
		}
		seen[r.End] = true
		p.Spans.All = append(p.Spans.All, chart.Span{Row: rows[name], From: seconds(r.From), To: seconds(to), Colour: stateColour(r.End)})
	}
	for _, end := range []board.State{board.Finished, board.Running, board.Killed, board.Failed} {
		if seen[end] {
			p.Spans.Keys = append(p.Spans.Keys, chart.Key{Name: string(end), Colour: stateColour(end)})
		}
	}
	return p
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func (s *Site) cancel(w http.ResponseWriter, r *http.Request) {
	j, ok := s.asked(w, r)
	if !ok {
		return
	}
	if err := s.Jobs.Cancel(j.ID); err != nil && !errors.Is(err, cluster.ErrEnded) {
		failed(w, err)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/jobs/%d", j.ID), http.StatusSeeOther)
}
