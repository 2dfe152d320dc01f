package trace

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gleaner/input"
	"gleaner/input/compressed"
)

// A Reader reads the calls of one file, in the file's order, or of all files
// of a folder, one after another.
type Reader struct {
	run   string
	scale int
	rest  []string // files of a folder that are not read yet
	bad   []error  // errors that ended files early

	name    string // of the file that is read
	process string // that wrote it, by the file's name
	in      *bufio.Reader
	close   func() error
	line    int
	format  format
	strange int // the first line of no known format, while the format is not known
	log     hadoopLog
	started map[string]bool // watches that were returned when they started

	scan scanner
	call Call
}

type format uint8

const (
	unknownFormat format = iota
	commonFormat
	auditFormat
	hadoopLogFormat
)

// Open opens the trace at path: the common record, audit events, or a Hadoop
// client's log, plain or compressed; or a folder of such files, one for each
// process, that are one run. The scale is the one of the records, or of a name
// like n026.jsonl.gz.
func Open(path string) (*Reader, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return openFolder(path)
	}
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
	r := &Reader{run: plainName(name), scale: ScaleOf(name)}
	r.begin(name, in, func() error { return nil })
	return r
}

// endings are those of the files that are read in a folder.
var endings = []string{".jsonl", ".json", ".log"}

// openFolder reads the traces of a folder. Other files in it, such as the output of a
// process, are ignored.
func openFolder(path string) (*Reader, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, input.Errorf(path, "cannot be read: %v", err)
	}
	r := &Reader{run: plainName(path), scale: ScaleOf(path), close: func() error { return nil }}
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".gz"), ".zst")
		if !e.IsDir() && slices.Contains(endings, filepath.Ext(name)) {
			r.rest = append(r.rest, filepath.Join(path, e.Name()))
		}
	}
	if len(r.rest) == 0 {
		return nil, input.Errorf(path, "no traces in this folder: no file ends in %s", strings.Join(endings, ", "))
	}
	r.begin(path, strings.NewReader(""), r.close)
	return r, nil
}

func plainName(path string) string {
	name := filepath.Base(path)
	for _, ending := range append([]string{".gz", ".zst"}, endings...) {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// begin starts to read a file.
func (r *Reader) begin(name string, in io.Reader, close func() error) {
	r.name, r.process, r.in, r.close = name, plainName(name), bufio.NewReaderSize(in, 1<<18), close
	r.line, r.strange, r.format, r.log, r.started = 0, 0, unknownFormat, newHadoopLog(), map[string]bool{}
}

// next starts to read the next file of a folder. After the last it returns io.EOF, or the
// errors of all files.
func (r *Reader) next() error {
	for len(r.rest) > 0 {
		name := r.rest[0]
		r.rest = r.rest[1:]
		if err := r.close(); err != nil {
			return err
		}
		r.close = func() error { return nil }
		f, err := compressed.Open(name)
		if err == nil {
			r.begin(name, f, f.Close)
			return nil
		}
		r.bad = append(r.bad, err)
	}
	return cmp.Or(errors.Join(r.bad...), io.EOF)
}

var scaleInName = regexp.MustCompile(`(?:^|[^A-Za-z0-9])n0*([1-9]\d*)[a-z]?(?:[^A-Za-z0-9]|$)`)

// ScaleOf is the scale in a file's name: 26 for n026.jsonl.gz and for run-n26b.jsonl, 0
// for a name without a valid scale.
func ScaleOf(name string) int {
	m := scaleInName.FindStringSubmatch(filepath.Base(name))
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n > MaxScale {
		return 0
	}
	return n
}

// Close closes the file.
func (r *Reader) Close() error { return r.close() }

// Next returns the next call, or io.EOF. The call and its leaves are valid
// until the next call of Next. A line that is not a call is an input.Error
// that names it. The rest of its file is not read, and the error is returned after the
// other files of the folder.
func (r *Reader) Next() (*Call, error) {
	for {
		c, err := r.inFile()
		switch {
		case c != nil:
			r.label(c)
			return c, nil
		case err == io.EOF:
			err = r.next()
		case input.Is(err):
			r.abandon(err)
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// abandon skips the rest of a file, for a reason that Next returns at the end.
func (r *Reader) abandon(why error) {
	r.bad = append(r.bad, why)
	r.in.Reset(strings.NewReader(""))
	r.strange = 0
}

// inFile returns the next call of the file that is read, or io.EOF.
func (r *Reader) inFile() (*Call, error) {
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
		c, err := r.parse(strings.ToValidUTF8(strings.TrimRight(text, "\r\n"), "\uFFFD"))
		if err != nil {
			return nil, input.Linef(r.name, r.line, "%v", err)
		}
		if c != nil {
			return c, nil
		}
	}
}

// label fills in what is the same for all calls of a file.
func (r *Reader) label(c *Call) {
	if c.Run == "" {
		c.Run = r.run
	}
	if c.Scale == 0 {
		c.Scale = r.scale
	}
}

// last returns the calls of a log that got no reply.
func (r *Reader) last() (*Call, error) {
	if r.format == unknownFormat && r.strange > 0 {
		return nil, input.Linef(r.name, r.strange, "%v", errNoTrace)
	}
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
	return c, nil
}

var errNoTrace = errors.New("neither a call in the common record, nor an audit event, nor a Hadoop client's log")

func (r *Reader) parse(text string) (*Call, error) {
	if r.format == unknownFormat {
		r.format = r.recognise(text)
	}
	c := &r.call
	*c = Call{Request: c.Request[:0], Response: c.Response[:0]}
	switch r.format {
	case hadoopLogFormat:
		return r.log.line(text, r.process)
	case commonFormat:
		r.scan.reset(text)
		return c, cmp.Or(c.record(&r.scan), r.scan.end())
	case auditFormat:
		r.scan.reset(text)
		stage, err := c.audit(&r.scan)
		if err = cmp.Or(err, r.scan.end()); err != nil || !r.again(c.ID, stage) {
			return c, err
		}
	}
	return nil, nil
}

// again reports whether an event is the end of a call that was returned at its start.
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

// recognise finds a file's format by one of its lines. A log may begin with lines that
// do not come from a logger.
func (r *Reader) recognise(text string) format {
	switch {
	case len(text) > 10 && text[4] == '-' && text[7] == '-':
		return hadoopLogFormat
	case r.strange > 0 || !strings.HasPrefix(strings.TrimSpace(text), "{"):
		r.strange = cmp.Or(r.strange, r.line)
		return unknownFormat
	case strings.Contains(text, `"apiVersion":"audit.k8s.io/`) || strings.Contains(text, `"apiVersion":"hadoop-rpc/`):
		return auditFormat
	}
	return commonFormat
}

// ReadAll reads the rest of the trace, sorted by the start of the calls. With an error it
// also returns the calls before it.
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
