package page

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
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
	d.Jobs, d.Now = s.rows(s.Board.Jobs()), time.Now()
	slices.Reverse(d.Jobs)
	show(w, code, "jobs", view{Title: "Jobs", At: "/jobs", Live: true, Data: d})
}

// submit accepts the job file in the form, or shows the form again with what is wrong.
func (s *Site) submit(w http.ResponseWriter, r *http.Request) {
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
	Graph template.HTML
	Gantt *drawing // nil if no run is known
	Runs  []runRow // the newest first
	More  int      // runs that are not shown
}

// A runRow is one run with the address of its log.
type runRow struct {
	board.Run
	Name string // of the task within its job
}

// Attempt is the number of the run, from 1.
func (r runRow) Attempt() int32 { return r.Task.Attempt + 1 }

// Most that is shown of a job's runs: rows of the chart and of the table.
const (
	ganttRows = 40
	tableRuns = 100
)

func (s *Site) job(w http.ResponseWriter, r *http.Request) {
	j, ok := s.asked(w, r)
	if !ok {
		return
	}
	d := jobData{jobRow: s.rows([]board.Job{j})[0], Now: time.Now()}
	runs := s.Board.Runs(j.ID)
	for i := len(runs) - 1; i >= 0; i-- {
		if len(d.Runs) < tableRuns {
			d.Runs = append(d.Runs, runRow{runs[i], taskName(runs[i].Task)})
		}
	}
	d.More = len(runs) - len(d.Runs)
	err := d.draw(runs)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	show(w, http.StatusOK, "job", view{Title: fmt.Sprintf("%s (%s)", j.Name, j.ID), At: "/jobs", Live: true, Data: d})
}

func taskName(t cluster.TaskID) string { return fmt.Sprintf("%s-%d", t.Stage, t.Index) }

func (d *jobData) draw(runs []board.Run) error {
	var svg strings.Builder
	if err := graph(d.Stages).WriteThemed(&svg); err != nil {
		return err
	}
	d.Graph = template.HTML(svg.String()) // chart escapes its texts
	if len(runs) == 0 {
		return nil
	}
	panel := gantt(runs, d.Now)
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
	for i := len(runs) - 1; i >= 0 && len(rows) < ganttRows; i-- {
		rows[taskName(runs[i].Task)] = 0
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
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/jobs/%d", j.ID), http.StatusSeeOther)
}

// taskData is what the view of a task shows.
type taskData struct {
	Job      board.Job
	Task     string
	Attempt  int32  // from 1; 0 if it has not run
	Why      string // it has not run
	Attempts []int32
	Stderr   bool
	Text     string // the end of what it wrote
	Cut      int64  // bytes before it
	Offset   int64  // where its output goes on
	Running  bool
}

// tail is how much of an output is shown at once.
const tail = 64 << 10

func (s *Site) task(w http.ResponseWriter, r *http.Request) {
	j, ok := s.asked(w, r)
	if !ok {
		return
	}
	id, ok := taskOf(j, r.PathValue("task"))
	if !ok {
		missing(w, fmt.Sprintf("%s has no task %s.", j.ID, r.PathValue("task")))
		return
	}
	d := taskData{Job: j, Task: r.PathValue("task"), Stderr: r.URL.Query().Get("stream") == "stderr"}
	last, ran := s.Board.Run(id)
	d.Running = ran
	if !ran {
		last, ran = s.Jobs.LastRun(id)
	}
	if ran {
		d.Attempt = last.Attempt + 1
		for n := range d.Attempt {
			d.Attempts = append(d.Attempts, n+1)
		}
		if n, err := strconv.ParseInt(r.URL.Query().Get("attempt"), 10, 32); err == nil && n >= 1 && int32(n) < d.Attempt {
			d.Attempt, d.Running = int32(n), false
		}
		id.Attempt = d.Attempt - 1
	}
	if !ran {
		d.Why = s.notRun(&j, id.Stage)
	}
	if err := d.read(s.Jobs, id); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	show(w, http.StatusOK, "task", view{Title: fmt.Sprintf("%s/%s", j.Name, d.Task), At: "/jobs", Data: d})
}

// notRun says why a task of a stage has not run.
func (s *Site) notRun(j *board.Job, stage string) string {
	if !j.Ended.IsZero() {
		return "its job has ended"
	}
	for _, st := range j.Stages {
		if st.Name == stage && st.State == board.Blocked && len(st.After) > 0 {
			return "it comes after " + strings.Join(st.After, ", ")
		}
	}
	status := s.Board.Status()
	return status.WaitsFor(j, time.UTC)
}

// taskOf is the task of a job by its name, as map-3.
func taskOf(j board.Job, name string) (cluster.TaskID, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return cluster.TaskID{}, false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	stage := slices.IndexFunc(j.Stages, func(st board.Stage) bool { return st.Name == name[:dash] })
	if err != nil || n < 0 || stage < 0 || int(n) >= j.Stages[stage].Tasks {
		return cluster.TaskID{}, false
	}
	return cluster.TaskID{Job: j.ID, Stage: name[:dash], Index: int32(n)}, true
}

// read reads the end of the output of a run. A run that has written nothing has none.
func (d *taskData) read(jobs Jobs, id cluster.TaskID) error {
	f, err := jobs.Output(id, d.Stderr)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	d.Cut = max(size-tail, 0)
	text := make([]byte, size-d.Cut)
	n, err := f.ReadAt(text, d.Cut)
	if err != nil && err != io.EOF {
		return err
	}
	d.Text, d.Offset = strings.ToValidUTF8(string(text[:n]), "\uFFFD"), d.Cut+int64(n)
	return nil
}
