package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gleaner/chart"
	"gleaner/input"
)

// Traces are the learned programs that are kept, by their names.
type Traces interface {
	List() ([]string, error)
	// Load reads a program; fs.ErrNotExist if there is none of that name.
	Load(name string) (*Program, error)
	// Save keeps a program, or the report of its replay. A mistake in the text is an input.Error, and nothing is changed.
	Save(name, text string) error
	// Fill gives an argument of all calls of a method its value.
	Fill(name, method, argument, value string) error
}

// A Program is one that was learned from recordings (docs/trace.md).
type Program struct {
	Scales   string
	Listing  string
	Coverage []Coverage // by target
	Asked    []Asked    // arguments to be filled in
	Doubts   []string
	Curves   []chart.Panel // what it does at which scale
	Replay   *Replay       // nil if none was kept
}

// A Coverage counts the arguments of calls to a target by how they are known.
type Coverage struct {
	Target                         string
	Constant, Regular, Flow, Asked int
}

// Known is the share of the arguments that nobody has to fill in.
func (c Coverage) Known() float64 {
	all := c.Constant + c.Regular + c.Flow + c.Asked
	return 1 - float64(c.Asked)/float64(max(all, 1))
}

// An Asked argument is one whose value is made up until somebody fills it in.
type Asked struct{ Type, Method, Call, Argument, Value string }

// A Replay is what happened when the program was played to a target.
type Replay struct {
	Says   string // which scale the target held, and where it gave in
	Panels []chart.Panel
}

// tracesData is what the list of programs shows.
type tracesData struct {
	Names             []string
	Name, Text, Wrong string // in the form
}

func (s *Site) traces(w http.ResponseWriter, _ *http.Request) {
	s.showTraces(w, http.StatusOK, tracesData{})
}

func (s *Site) showTraces(w http.ResponseWriter, code int, d tracesData) {
	var err error
	if d.Names, err = s.Traces.List(); err != nil {
		failed(w, err)
		return
	}
	show(w, code, "traces", view{Title: "Traces", At: "/traces", Data: d})
}

// keep keeps the program in the form, or shows the form again with what is wrong.
func (s *Site) keep(w http.ResponseWriter, r *http.Request) {
	d := tracesData{Name: r.PostFormValue("name"), Text: strings.ReplaceAll(r.PostFormValue("program"), "\r\n", "\n")}
	if err := s.Traces.Save(d.Name, d.Text); err != nil {
		d.Wrong = err.Error()
		s.showTraces(w, refusal(err), d)
		return
	}
	http.Redirect(w, r, "/traces/"+url.PathEscape(d.Name), http.StatusSeeOther)
}

// refusal is the code of an answer to what could not be done.
func refusal(err error) int {
	if input.Is(err) {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// traceData is what the view of a program shows.
type traceData struct {
	*Program
	Name          string
	Charts, Sweep []drawing
	More          int      // arguments to be filled in that are not listed
	Lines         []string // of the listing
	Rest          int      // lines that are not shown
	Wrong         string   // with what was to be filled in
}

// Most that is shown of a program: arguments to be filled in, and lines of its listing.
const (
	shownAsked = 50
	shownLines = 4000
)

func (s *Site) trace(w http.ResponseWriter, r *http.Request) { s.showTrace(w, r, "") }

func (s *Site) showTrace(w http.ResponseWriter, r *http.Request, wrong string) {
	d := traceData{Name: r.PathValue("name"), Wrong: wrong}
	code := http.StatusOK
	if wrong != "" {
		code = http.StatusUnprocessableEntity
	}
	var err error
	if d.Program, err = s.Traces.Load(d.Name); err != nil {
		missing(w, fmt.Sprintf("There is no program %s that can be read: %v", d.Name, err))
		return
	}
	if d.Charts, err = drawAll(d.Curves...); err == nil && d.Replay != nil {
		d.Sweep, err = drawAll(d.Replay.Panels...)
	}
	if err != nil {
		failed(w, err)
		return
	}
	d.More = max(len(d.Asked)-shownAsked, 0)
	d.Lines = slices.Collect(strings.Lines(d.Listing))
	d.Lines, d.Rest = shown(d.Lines, shownLines), max(len(d.Lines)-shownLines, 0)
	show(w, code, "trace", view{Title: d.Name, At: "/traces", Data: d})
}

// ToFill are the arguments to be filled in that are listed.
func (d traceData) ToFill() []Asked { return shown(d.Asked, shownAsked) }

// fill gives an argument its value.
func (s *Site) fill(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	err := s.Traces.Fill(name, r.PostFormValue("method"), r.PostFormValue("argument"), r.PostFormValue("value"))
	if err != nil {
		s.showTrace(w, r, err.Error())
		return
	}
	http.Redirect(w, r, "/traces/"+url.PathEscape(name)+"#asked", http.StatusSeeOther)
}
