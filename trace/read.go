package trace

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gleaner/input"
	"gleaner/input/compressed"
)

// A Reader reads the calls of one file, in the file's order.
type Reader struct {
	name  string
	run   string
	scale int
	in    *bufio.Reader
	close func() error
	line  int

	scan    scanner
	call    Call
	format  format
	log     hadoopLog
	started map[string]bool // watches that were handed out when they started
}

type format uint8

const (
	unknownFormat format = iota
	commonFormat
	auditFormat
	hadoopLogFormat
)

// Open opens the trace in the file at path: the common record, audit events,
// or a Hadoop client's log, plain or compressed. The scale is the one of the
// records, or of a file name like n026.jsonl.gz.
func Open(path string) (*Reader, error) {
	f, err := compressed.Open(path)
	if err != nil {
		return nil, err
	}
	r := NewReader(path, f)
	r.close = f.Close
	return r, nil
}

// NewReader reads a trace from in; name is the file's, for the run, the scale and errors.
func NewReader(name string, in io.Reader) *Reader {
	run := filepath.Base(name)
	for _, ending := range []string{".gz", ".zst", ".jsonl", ".json", ".log"} {
		run = strings.TrimSuffix(run, ending)
	}
	return &Reader{name: name, run: run, scale: ScaleOf(name), in: bufio.NewReaderSize(in, 1<<18), close: func() error { return nil },
		log: hadoopLog{open: map[string]*Call{}}, started: map[string]bool{}}
}

var scaleInName = regexp.MustCompile(`(?:^|[^A-Za-z0-9])n0*([1-9]\d*)[a-z]?(?:[^A-Za-z0-9]|$)`)

// ScaleOf is the scale a file's name tells: 26 for n026.jsonl.gz and for
// run-n26b.jsonl, 0 for a name that tells none.
func ScaleOf(name string) int {
	m := scaleInName.FindStringSubmatch(filepath.Base(name))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Close closes the file.
func (r *Reader) Close() error { return r.close() }

// Next returns the next call, or io.EOF. The call and its leaves are valid
// until the next call of Next. A line that is not a call is an input.Error
// that names it; nothing can be read behind it.
func (r *Reader) Next() (*Call, error) {
	for {
		text, err := r.in.ReadString('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		if text == "" {
			return r.last()
		}
		r.line++
		if strings.TrimSpace(text) == "" {
			continue
		}
		c, err := r.parse(strings.TrimRight(text, "\r\n"))
		if err != nil {
			return nil, input.Linef(r.name, r.line, "%v", err)
		}
		if c != nil {
			r.label(c)
			return c, nil
		}
	}
}

// label fills in what the file says about all its calls.
func (r *Reader) label(c *Call) {
	if c.Run == "" {
		c.Run = r.run
	}
	if c.Scale == 0 {
		c.Scale = r.scale
	}
}

// last hands out calls of a log that never got their replies.
func (r *Reader) last() (*Call, error) {
	threads := make([]string, 0, len(r.log.open))
	for thread := range r.log.open {
		threads = append(threads, thread)
	}
	if len(threads) == 0 {
		return nil, io.EOF
	}
	first := slices.Min(threads)
	c := r.log.open[first]
	delete(r.log.open, first)
	r.label(c)
	return c, nil
}

var errNoTrace = errors.New("neither a call in the common record, nor an audit event, nor a Hadoop client's log")

func (r *Reader) parse(text string) (*Call, error) {
	if r.format == unknownFormat {
		r.format = recognise(text)
	}
	c := &r.call
	*c = Call{Request: c.Request[:0], Response: c.Response[:0]}
	switch r.format {
	case hadoopLogFormat:
		return r.log.line(text, r.run)
	case commonFormat:
		r.scan.reset(text)
		return c, cmp.Or(c.record(&r.scan), r.scan.end())
	case auditFormat:
		r.scan.reset(text)
		stage, err := c.audit(&r.scan)
		if err = cmp.Or(err, r.scan.end()); err != nil || !r.again(c.ID, stage) {
			return c, err
		}
		return nil, nil
	}
	return nil, errNoTrace
}

// again reports whether an event is the end of a call that was handed out at its start.
func (r *Reader) again(id, stage string) bool {
	if stage == "ResponseStarted" {
		r.started[strings.Clone(id)] = true
		return false
	}
	if !r.started[id] {
		return stage == "RequestReceived"
	}
	delete(r.started, id)
	return true
}

func recognise(text string) format {
	switch {
	case !strings.HasPrefix(strings.TrimSpace(text), "{"):
		if len(text) > 10 && text[4] == '-' && text[7] == '-' {
			return hadoopLogFormat
		}
		return unknownFormat
	case strings.Contains(text, `"apiVersion":"audit.k8s.io/`) || strings.Contains(text, `"apiVersion":"hadoop-rpc/`):
		return auditFormat
	}
	return commonFormat
}

// ReadAll reads the rest of the trace, sorted by the start of the calls. On an
// error it returns what it read before it as well.
func (r *Reader) ReadAll() ([]*Call, error) {
	var out []*Call
	for {
		c, err := r.Next()
		if err != nil {
			slices.SortStableFunc(out, func(a, b *Call) int { return cmp.Compare(a.Start, b.Start) })
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
		out = append(out, c.clone())
	}
}
