package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gleaner/input"
	"gleaner/plan/examples"
	"gleaner/plan/spec"
)

// A Login is who asks. Its name is not the secret that proves it.
type Login struct {
	Name  string
	Ended <-chan struct{} // closed when it is over
}

type loginKey struct{}

// WithLogin tells the views who asks.
func WithLogin(ctx context.Context, l Login) context.Context {
	return context.WithValue(ctx, loginKey{}, l)
}

// LoginOf is who asks; those who show the token of the API are one.
func LoginOf(r *http.Request) Login {
	l, _ := r.Context().Value(loginKey{}).(Login)
	return l
}

// Limits of what people bring. It is kept in memory.
const (
	mostText   = 64 << 10 // bytes of one document
	mostUpload = 5 * mostText
	mostOwn    = 4  // of a login
	mostOwns   = 32 // of all
)

// Limits of what is planned here. Before a search polls whether it is to stop it compares all choices for all
// datasets, which is soon done for what people write by hand.
const (
	mostDatasets = 16
	mostTasks    = 32
	mostUnits    = 12
	mostServers  = 8
)

// fits reports what a document has too much of.
func fits(name, what string, n, most int) error {
	if n > most {
		return input.Errorf(name, "%d %ss; here are planned at most %d, and 'gleaner plan' plans more", n, what, most)
	}
	return nil
}

// A document is one that people bring.
type document struct {
	Field, Name, About string
	Text               string
	Optional           bool
}

// documents are those that a plan needs, to be filled in.
func documents() []document {
	return []document{
		{Field: "app", Name: "application", About: "what is stored, and what each request does"},
		{Field: "hw", Name: "hardware", About: "what can be bought, and for how much"},
		{Field: "sla", Name: "SLA", About: "what must be achieved"},
		{Field: "hw2", Name: "second hardware", About: "another list to compare with", Optional: true},
	}
}

// ownData is what the form for documents shows.
type ownData struct {
	Documents []document
	Wrong     []string
	Owns      []*subject
	KiB, Most int
}

// brought are the documents that people brought, the oldest first.
type brought struct {
	mu    sync.Mutex
	last  int
	all   []own
	turns map[string]*Turn // of each login that brought some
}

type own struct {
	*subject
	login     string
	documents []document
	stop      func()
}

const forgotten = "These documents are not here: they are kept for the login that brought them, the last four of it, until it ends."

// turn is the one of a login, which forgets all of it when it ends.
func (b *brought) turn(l Login) *Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turns[l.Name] == nil {
		b.turns[l.Name] = new(Turn)
		if l.Ended != nil {
			go func() { <-l.Ended; b.forget(l.Name) }()
		}
	}
	return b.turns[l.Name]
}

// add keeps documents, and gives up the oldest for them.
func (b *brought) add(o own) *subject {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	o.Own, o.Name, o.Text = b.last, strconv.Itoa(b.last), fmt.Sprintf("Your documents %d", b.last)
	o.Path = "/plan/own/" + o.Name
	b.all = append(b.all, o)
	count := 0
	for i := len(b.all) - 1; i >= 0; i-- {
		if b.all[i].login == o.login {
			if count++; count > mostOwn {
				b.drop(i)
			}
		}
	}
	for len(b.all) > mostOwns {
		b.drop(0)
	}
	return o.subject
}

func (b *brought) drop(i int) {
	b.all[i].stop()
	b.all = slices.Delete(b.all, i, i+1)
}

// forget drops all of a login.
func (b *brought) forget(login string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.all) - 1; i >= 0; i-- {
		if b.all[i].login == login {
			b.drop(i)
		}
	}
	delete(b.turns, login)
}

// find is what a login brought; nil if it did not.
func (b *brought) find(login, id string) *subject {
	if o, ok := b.get(login, id); ok {
		return o.subject
	}
	return nil
}

func (b *brought) get(login, id string) (own, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.all, func(o own) bool { return o.login == login && o.Name == id })
	if i < 0 {
		return own{}, false
	}
	return b.all[i], true
}

// of is all that a login brought.
func (b *brought) of(login string) (all []*subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.all {
		if o.login == login {
			all = append(all, o.subject)
		}
	}
	return all
}

// own shows the form, with documents to start from or those that were brought before.
func (s *Site) own(w http.ResponseWriter, r *http.Request) {
	d := documents()
	if id := r.URL.Query().Get("from"); id != "" {
		o, ok := s.planning.brought.get(LoginOf(r).Name, id)
		if !ok {
			missing(w, forgotten)
			return
		}
		d = o.documents
	} else {
		for i, file := range examples.New() {
			text, err := examples.ReadNew(file)
			if err != nil {
				failed(w, err)
				return
			}
			d[i].Text = string(text)
		}
	}
	s.showOwn(w, r, http.StatusOK, ownData{Documents: d})
}

func (s *Site) showOwn(w http.ResponseWriter, r *http.Request, code int, d ownData) {
	d.Owns, d.KiB, d.Most = s.planning.brought.of(LoginOf(r).Name), mostText>>10, mostOwn
	show(w, code, "own", view{Title: "Plan with your own documents", At: "/plan", Data: d})
}

// bring takes documents, and leads to their plan.
func (s *Site) bring(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostUpload)
	d := documents()
	if err := r.ParseMultipartForm(mostUpload); err != nil { // all of it stays in memory
		code, why := http.StatusBadRequest, err.Error()
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			code, why = http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d KiB were sent; a document has at most %d KiB", mostUpload>>10, mostText>>10)
		}
		s.showOwn(w, r, code, ownData{Documents: d, Wrong: []string{why}})
		return
	}
	o, err := s.read(r, d)
	if err != nil {
		s.showOwn(w, r, refusal(err), ownData{Documents: d, Wrong: wrongs(err)})
		return
	}
	http.Redirect(w, r, s.planning.brought.add(o).Path, http.StatusSeeOther)
}

// read reads what a form brings into d; a file that was chosen takes the place of the text. All mistakes are
// reported at once.
func (s *Site) read(r *http.Request, d []document) (own, error) {
	var mistakes input.Errors
	var note func(err error) error
	note = func(err error) error {
		var one *input.Error
		var many input.Errors
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if err := note(e); err != nil {
					return err
				}
			}
			return nil
		}
		switch {
		case errors.As(err, &many):
			mistakes = append(mistakes, many...)
		case errors.As(err, &one):
			mistakes = append(mistakes, one)
		default:
			return err
		}
		return nil
	}
	sub := &subject{planners: map[string]*planner{}}
	var lists []list
	readable := false // the application
	for i := range d {
		text, err := brings(r.MultipartForm, d[i])
		d[i].Text = text
		if err == nil && !(text == "" && d[i].Optional) {
			switch name, text := d[i].Name, []byte(text); d[i].Field {
			case "app":
				sub.app, err = spec.ReadApplication(name, text)
				readable = err == nil
				err = errors.Join(err, fits(name, "dataset", len(sub.app.Datasets), mostDatasets), fits(name, "task", len(sub.app.Tasks), mostTasks))
			case "sla":
				if readable { // it names tasks of the application
					sub.sla, err = spec.ReadSLA(name, text, sub.app)
				}
			default:
				l := list{Name: d[i].Field, Text: "Your list of hardware"}
				if d[i].Optional {
					l.Text = "Your second list"
				}
				l.hw, err = spec.ReadHardware(name, text)
				err = errors.Join(err, fits(name, "storage unit", len(l.hw.Units), mostUnits), fits(name, "server", len(l.hw.Servers), mostServers))
				lists = append(lists, l)
			}
		}
		if err := note(err); err != nil {
			return own{}, err
		}
	}
	if len(mistakes) > 0 {
		return own{}, mistakes
	}
	sub.Lists = append(lists, s.planning.lists...)
	login := LoginOf(r)
	sub.turns = []*Turn{s.planning.brought.turn(login), s.planning.machine}
	o := own{subject: sub, login: login.Name, documents: d}
	sub.ctx, o.stop = context.WithCancel(context.Background())
	return o, nil
}

// brings is the text of a document: of the file if one was chosen.
func brings(form *multipart.Form, d document) (string, error) {
	var text string
	if given := form.Value[d.Field]; len(given) > 0 {
		text = given[0]
	}
	if files := form.File[d.Field+"-file"]; len(files) > 0 && files[0].Size > 0 {
		f, err := files[0].Open()
		if err != nil {
			return "", err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, mostText+1))
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // as a form sends lines
	switch {
	case len(text) > mostText:
		return "", input.Errorf(d.Name, "longer than %d KiB", mostText>>10)
	case text == "" && !d.Optional:
		return "", input.Errorf(d.Name, "is missing: choose a file, or paste its text")
	}
	return text, nil
}
