package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/volume"
	"gleaner/input"
)

// Disks answers the requests under /api/v1/disks/ (docs/disk.md). It belongs on a socket that only the
// owner of the data can reach.
type Disks struct {
	Front *fabric.Front
	// Stays says that the front stays open when a request is answered. One that does not exports nothing,
	// and clears away at once what was removed.
	Stays bool
	// URI names a vDisk as NBD clients take it.
	URI func(name string) string
	// Store names where the metadata is. A request that names another store is refused.
	Store string
}

// A DiskOrder says what to do with which vDisk. It is the query of a request.
type DiskOrder struct {
	Store    string // that is meant; empty for whichever it is
	Name     string
	As       string // the name of the snapshot or the clone
	Size     int64
	Replicas int    // 0 for as many as is usual
	Level    string // of compression
	Shards   int

	Jobs []string // of a scan for upkeep; none for all
	Why  string   // upkeep is paused
}

// Query writes an order as a query.
func (o DiskOrder) Query() string {
	return url.Values{"store": {o.Store}, "name": {o.Name}, "as": {o.As}, "size": {strconv.FormatInt(o.Size, 10)}, "replicas": {strconv.Itoa(o.Replicas)},
		"level": {o.Level}, "shards": {strconv.Itoa(o.Shards)}, "job": o.Jobs, "why": {o.Why}}.Encode()
}

func diskOrder(query url.Values) (DiskOrder, error) {
	o := DiskOrder{Name: query.Get("name"), As: query.Get("as"), Level: query.Get("level"), Jobs: query["job"], Why: query.Get("why")}
	var replicas, shards int64
	for field, n := range map[string]*int64{"size": &o.Size, "replicas": &replicas, "shards": &shards} {
		if text := query.Get(field); text != "" {
			var err error
			if *n, err = strconv.ParseInt(text, 10, 64); err != nil {
				return o, input.Fieldf(field, "%q is not a whole number", text)
			}
		}
	}
	o.Replicas, o.Shards = int(replicas), int(shards)
	return o, nil
}

// DiskName is the answer to a request after which there is no more to tell.
type DiskName struct {
	Name string `json:"name"`
}

// DiskExport is the answer to POST /api/v1/disks/export.
type DiskExport struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
}

// Handler serves the requests, unguarded.
func (d *Disks) Handler() http.Handler {
	mux := http.NewServeMux()
	for name, do := range map[string]func(context.Context, DiskOrder) (any, error){
		"list": d.list, "lent": d.lent, "retire": d.retire, "reinstate": d.reinstate, "create": d.create, "remove": d.remove, "snapshot": d.snapshot, "clone": d.clone, "resize": d.resize, "stat": d.stat, "export": d.export,
		"curation": d.curation, "scan": d.scan, "plan": d.plan, "pause": d.pause, "resume": d.resume,
	} {
		mux.HandleFunc("POST /api/v1/disks/"+name, func(w http.ResponseWriter, r *http.Request) {
			var result any
			o, err := diskOrder(r.URL.Query())
			if err == nil {
				result, err = do(r.Context(), o)
			}
			conclude(w, result, err)
		})
	}
	mux.HandleFunc("POST /api/v1/disks/check", d.check)
	mux.HandleFunc("POST /api/v1/disks/shrink", d.shrink)
	mux.HandleFunc("POST /api/v1/disks/import", d.fill)
	mux.HandleFunc("POST /api/v1/disks/dump", d.dump)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server's limit is for a request that is read at once. These take as long as they take.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		// Who gets this knows that the order was read; who does not may give it to another.
		w.WriteHeader(http.StatusProcessing)
		if meant := r.URL.Query().Get("store"); meant != "" && meant != d.Store {
			conclude(w, nil, input.Fieldf("store", "the disks are served from %s, not from %s", d.Store, meant))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// conclude answers with a result, or says what went wrong.
func conclude(w http.ResponseWriter, result any, err error) {
	switch {
	case err == nil:
		answer(w, http.StatusOK, result)
	case errors.Is(err, errLeaves):
		problem(w, http.StatusServiceUnavailable, "%v", err)
	case input.Is(err):
		answer(w, http.StatusUnprocessableEntity, ProblemOf(err))
	case errors.Is(err, syscall.ENOSPC):
		problem(w, http.StatusInsufficientStorage, "%v", err)
	default:
		problem(w, http.StatusInternalServerError, "%v", err)
	}
}

// ProblemOf tells what is wrong. It keeps the field apart: only who asked knows what it is called there.
func ProblemOf(err error) Problem {
	var at *input.Error
	if errors.As(err, &at) && at.Field != "" {
		return Problem{Error: at.Msg, Field: at.Field}
	}
	return Problem{Error: err.Error()}
}

func (d *Disks) list(ctx context.Context, _ DiskOrder) (any, error) { return d.Front.List(ctx) }

func (d *Disks) lent(ctx context.Context, _ DiskOrder) (any, error) { return d.Front.Lent(ctx) }

func (d *Disks) retire(ctx context.Context, o DiskOrder) (any, error) {
	return d.Front.Retire(ctx, cluster.DiskID(o.Name))
}

func (d *Disks) reinstate(ctx context.Context, o DiskOrder) (any, error) {
	return d.Front.Reinstate(ctx, cluster.DiskID(o.Name))
}

func (d *Disks) stat(ctx context.Context, o DiskOrder) (any, error) { return d.Front.Stat(ctx, o.Name) }

// after gives the line of a vDisk that was changed.
func (d *Disks) after(ctx context.Context, name string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	s, err := d.Front.Stat(ctx, name)
	return s.Info, err
}

func (d *Disks) create(ctx context.Context, o DiskOrder) (any, error) {
	_, err := d.Front.Create(ctx, o.Name, o.Size, o.Replicas)
	return d.after(ctx, o.Name, err)
}

func (d *Disks) snapshot(ctx context.Context, o DiskOrder) (any, error) {
	return d.after(ctx, o.As, d.Front.Snapshot(ctx, o.Name, o.As))
}

func (d *Disks) clone(ctx context.Context, o DiskOrder) (any, error) {
	return d.after(ctx, o.As, d.Front.Clone(ctx, o.Name, o.As))
}

func (d *Disks) resize(ctx context.Context, o DiskOrder) (any, error) {
	return d.after(ctx, o.Name, d.Front.Resize(ctx, o.Name, o.Size))
}

func (d *Disks) remove(ctx context.Context, o DiskOrder) (any, error) {
	err := d.Front.Remove(ctx, o.Name)
	if err == nil && !d.Stays {
		err = d.Front.Tidy(ctx)
	}
	return DiskName{o.Name}, err
}

// errLeaves refuses an export by a process that is about to end.
var errLeaves = errors.New("another 'gleaner disk' command has the disks open and will end soon; try again then")

func (d *Disks) export(ctx context.Context, o DiskOrder) (any, error) {
	if _, err := d.Front.Stat(ctx, o.Name); err != nil {
		return nil, err
	}
	if !d.Stays {
		return nil, errLeaves
	}
	return DiskExport{o.Name, d.URI(o.Name)}, nil
}

// A Step is a line of the answer to a request that takes long: how far it has come, or in the last line what it
// gives or what went wrong.
type Step[R any] struct {
	Done    int      `json:"done"`
	Of      int      `json:"of"`
	Report  *R       `json:"report,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// A CheckStep is a line of the answer to POST /api/v1/disks/check.
type CheckStep = Step[fabric.Report]

// A ShrinkStep is a line of the answer to POST /api/v1/disks/shrink.
type ShrinkStep = Step[fabric.Shrunk]

const tellEvery = 100 * time.Millisecond

// steps answers with what do tells.
func steps[R any](w http.ResponseWriter, do func(progress func(done, of int)) (R, error)) {
	w.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(w)
	var step Step[R]
	var told time.Time
	report, err := do(func(done, of int) {
		step.Done, step.Of = done, of
		if time.Since(told) > tellEvery {
			told = time.Now()
			_ = lines.Encode(step)
			_ = http.NewResponseController(w).Flush()
		}
	})
	if err != nil {
		p := ProblemOf(err)
		step.Problem = &p
	} else {
		step.Report = &report
	}
	_ = lines.Encode(step)
}

func (d *Disks) check(w http.ResponseWriter, r *http.Request) {
	steps(w, func(progress func(done, of int)) (fabric.Report, error) { return d.Front.Check(r.Context(), progress) })
}

func (d *Disks) shrink(w http.ResponseWriter, r *http.Request) {
	o, err := diskOrder(r.URL.Query())
	var form volume.Form
	if err == nil {
		form, err = fabric.CheckForm(o.Level, o.Shards)
	}
	if err == nil {
		_, err = d.Front.Stat(r.Context(), o.Name) // it is there
	}
	if err != nil {
		conclude(w, nil, err)
		return
	}
	steps(w, func(progress func(done, of int)) (fabric.Shrunk, error) {
		return d.Front.Shrink(r.Context(), o.Name, form, progress)
	})
}

const sector = 512

// fill makes a vDisk of what the request sends: all of it, or none.
func (d *Disks) fill(w http.ResponseWriter, r *http.Request) {
	o, err := diskOrder(r.URL.Query())
	if err != nil {
		conclude(w, nil, err)
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // a refusal need not wait for all that is sent
	ctx := r.Context()
	if _, err := d.Front.Create(ctx, o.Name, (r.ContentLength+sector-1)/sector*sector, o.Replicas); err != nil {
		refuse(w, r, err)
		return
	}
	body := counting{Reader: r.Body}
	err = d.Front.Import(ctx, o.Name, &body, func(int64) {})
	if err == nil && body.n != r.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		ctx := context.WithoutCancel(ctx)
		refuse(w, r, errors.Join(err, d.Front.Remove(ctx, o.Name), d.Front.Tidy(ctx)))
		return
	}
	info, err := d.after(ctx, o.Name, nil)
	conclude(w, info, err)
}

// refuse answers a request that is still being sent, and reads on for a while: who only sees the connection end would not know why.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	conclude(w, nil, err)
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(toBeHeard)) == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// toBeHeard is how long it takes at most until a client has read an answer.
const toBeHeard = 30 * time.Second

type counting struct {
	io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// DiskSizeHeader tells the size of a vDisk that is dumped.
const DiskSizeHeader = "Gleaner-Disk-Size"

// dump sends a vDisk in pieces.
func (d *Disks) dump(w http.ResponseWriter, r *http.Request) {
	o, err := diskOrder(r.URL.Query())
	if err != nil {
		conclude(w, nil, err)
		return
	}
	s, err := d.Front.Stat(r.Context(), o.Name)
	if err != nil {
		conclude(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(DiskSizeHeader, strconv.FormatInt(s.Size, 10))
	size, err := d.Front.Dump(r.Context(), o.Name, func(p []byte, offset int64) error { return writePiece(w, p, offset) })
	endPieces(w, size, err)
}
