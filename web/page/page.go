// Package page is what people see of a gleaner in a browser: a view for each
// thing it knows, made on the server from templates in the binary
// (docs/page.md, docs/design.md). It shows what it is given and decides nothing; who may
// see it is checked by web.Guard.
package page

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/control/loads"
	"gleaner/dilation"
	"gleaner/fabric"
)

// A Site is all views. What is nil is not known here, and its view says so.
type Site struct {
	Board     *board.Board
	Harvested func() cluster.Resources // used by harvested tasks now
	Most      cluster.Resources        // that one task may request
	Jobs      Jobs
	Trail     *Trail
	Disks     func() Disks // nil until the disks are open
	Classes   func() (*Classes, error)
	Learned   func() ([]loads.Learned, dilation.Machine) // how tasks load the machine

	Traces      Traces
	Experiments func() ([]Experiment, error)
	Results     string // the directory that results of experiments are read from

	planning    *planning
	classCharts classCharts
}

// Jobs accepts and ends jobs, and keeps the output of their tasks.
type Jobs interface {
	// Submit accepts a job file; a mistake in it is an input.Error.
	Submit(ctx context.Context, text string) (cluster.JobID, error)
	Cancel(cluster.JobID) error
	// Output opens what a run of a task has written; see web.Machine.
	Output(id cluster.TaskID, stderr bool) (*os.File, error)
	LastRun(cluster.TaskID) (cluster.TaskID, bool)
	// Outcome is how a run has ended; false if it has not, or it is not known.
	Outcome(cluster.TaskID) (cluster.Outcome, bool)
	TaskOf(*board.Job, cluster.TaskID) board.Task
	TasksOf(context.Context, *board.Job, board.Choice) []board.Task
	// Follow answers GET /jobs/{id}/tasks/{task}/output with the output as it grows.
	Follow(http.ResponseWriter, *http.Request)
}

// Disks are the vDisks and the disks that hold them.
type Disks interface {
	List(context.Context) ([]fabric.Info, error)
	// Stat tells all of one; that there is none is an input.Error.
	Stat(ctx context.Context, name string) (fabric.Stat, error)
	Lent(context.Context) ([]fabric.Lent, error)
	Curation(context.Context) (fabric.Curation, error)
	Grids(context.Context) ([]fabric.Grid, error)
}

//go:embed templates/*.html
var sources embed.FS

//go:embed assets
var assets embed.FS

// templates are read when the first view is shown: a supervisor, which is started for every task, shows none.
var templates = sync.OnceValue(parse)

// parse reads the templates: each view with the frame around it.
func parse() map[string]*template.Template {
	frame := template.Must(template.New("").Funcs(words).ParseFS(sources, "templates/frame.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	names, _ := fs.Glob(sources, "templates/*.html") // the pattern is fixed
	for _, name := range names {
		all[name[len("templates/"):len(name)-len(".html")]] = template.Must(template.Must(frame.Clone()).ParseFS(sources, name))
	}
	return all
}

// A view is what a template shows.
type view struct {
	Title string
	At    string // the entry of the menu that it belongs to
	Live  bool   // it changes by itself
	Menu  []entry
	Data  any
}

// An entry of the menu.
type entry struct{ Path, Name string }

var menu = []entry{{"/", "Overview"}, {"/jobs", "Jobs"}, {"/tenants", "Tenants"}, {"/slowdown", "Slow-down"}, {"/storage", "Storage"}, {"/plan", "Plan"}, {"/traces", "Traces"}, {"/lab", "Lab"}}

// show writes a view, all of it or none.
func show(w http.ResponseWriter, code int, name string, v view) {
	v.Menu = menu
	var out bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&out, "frame", v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = out.WriteTo(w)
}

// Open reports whether a path is served to those who are not logged in: what the login
// looks like.
func Open(path string) bool { return path == "/assets/page.css" || path == "/assets/icon.svg" }

// Handler serves the views, unguarded.
func (s *Site) Handler() http.Handler {
	var err error
	if s.planning, err = newPlanning(); err != nil {
		panic(err) // the documents are in the binary
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /jobs", s.jobs)
	mux.HandleFunc("POST /jobs", s.submit)
	mux.HandleFunc("GET /jobs/{id}", s.job)
	mux.HandleFunc("POST /jobs/{id}/cancel", s.cancel)
	mux.HandleFunc("GET /jobs/{id}/tasks", s.tasks)
	mux.HandleFunc("GET /jobs/{id}/tasks/{task}", s.task)
	mux.HandleFunc("GET /jobs/{id}/tasks/{task}/output", s.Jobs.Follow)
	mux.HandleFunc("GET /tenants", s.tenants)
	mux.HandleFunc("GET /tenants/{tenant...}", s.tenant)
	mux.HandleFunc("GET /slowdown", s.slowdown)
	mux.HandleFunc("GET /storage", s.storage)
	mux.HandleFunc("GET /storage/{name}", s.vdisk)
	mux.HandleFunc("GET /plan", s.plan)
	mux.HandleFunc("GET /plan/robust", s.robust)
	mux.HandleFunc("GET /plan/own", s.own)
	mux.HandleFunc("POST /plan/own", s.bring)
	mux.HandleFunc("GET /plan/own/{id}", s.plan)
	mux.HandleFunc("GET /plan/own/{id}/robust", s.robust)
	mux.HandleFunc("GET /traces", s.traces)
	mux.HandleFunc("POST /traces", s.keep)
	mux.HandleFunc("GET /traces/{name}", s.trace)
	mux.HandleFunc("POST /traces/{name}/fill", s.fill)
	mux.HandleFunc("GET /lab", s.lab)
	mux.HandleFunc("GET /lab/{name}", s.experiment)
	mux.HandleFunc("GET /events", events)
	mux.Handle("GET /assets/{file}", http.FileServerFS(assets))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		missing(w, fmt.Sprintf("There is no %s %s here.", r.Method, r.URL.Path))
	})
	return mux
}

// A Refusal is shown in place of a view.
type Refusal struct {
	Why    string
	Onward string // the address that was asked for, if following it from here may work
	Known  bool   // to log in would not help
}

// Refuse says why a view is not shown, and how to log in.
func Refuse(w http.ResponseWriter, code int, r Refusal) {
	title := "Log in"
	if r.Known {
		title = "Refused"
	}
	show(w, code, "login", view{Title: title, At: "login", Data: r})
}

// missing says that there is no such thing.
func missing(w http.ResponseWriter, why string) {
	refuse(w, http.StatusNotFound, "Not found", why)
}

// failed says why a view cannot be shown.
func failed(w http.ResponseWriter, err error) {
	refuse(w, http.StatusInternalServerError, "This does not work now", err.Error())
}

func refuse(w http.ResponseWriter, code int, title, why string) {
	show(w, code, "missing", view{Title: title, Data: struct{ Title, Why string }{title, why}})
}

// tick is how often views are brought up to date.
const tick = 2 * time.Second

// events tells a browser when to bring its view up to date, as server-sent events.
func events(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's limit is for a request that is answered at once
	w.Header().Set("Content-Type", "text/event-stream")
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		if _, err := fmt.Fprint(w, "event: tick\ndata:\n\n"); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticks.C:
		}
	}
}
