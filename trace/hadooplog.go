package trace

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// clientLine is a line of org.apache.hadoop.ipc.ProtobufRpcEngine(2) at level
// TRACE: a time, the sender's address as from=ADDRESS if the layout has it, anything else
// that the layout adds, then
// "<thread>: Call -> <server>: <method> {<message>}", or Response or Exception
// with "<-".
var clientLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3})(?: from=(\S+))?.*?ProtobufRpcEngine2?\b.*? (\d+): (Call ->|Response <-|Exception <-) (\S+): (\w+) \{(.*)$`)

// hadoopLog pairs the lines of a client's log by thread: a thread waits for
// its reply before it calls again, and the log has no other id.
type hadoopLog struct {
	open map[string]*Call
	last map[string]int64 // by thread: the time of its last line
	now  int64            // the time of the last line of any
}

// tick is what is between lines of one millisecond, the unit of the log's times: a thread that
// is quick calls again in the millisecond of the reply, and comes after it.
const tick = int64(time.Microsecond)

func newHadoopLog() hadoopLog { return hadoopLog{open: map[string]*Call{}, last: map[string]int64{}} }

// time is when a line was written, after those of its millisecond that stand before it. Lines of
// several threads may change places, those of one do not.
func (h *hadoopLog) time(at int64, thread string) int64 {
	if at <= h.now && h.now-at < int64(time.Millisecond) {
		at = h.now + tick
	}
	if last := h.last[thread]; at <= last && last-at < int64(time.Second) { // else the clock was set back
		at = last + tick
	}
	h.now, h.last[thread] = at, at
	return at
}

// line reads one line. It returns a call with the line of its reply.
func (h *hadoopLog) line(text, sender string) (*Call, error) {
	m := clientLine.FindStringSubmatch(text)
	if m == nil {
		return nil, nil // other loggers write into the same file
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", strings.NewReplacer(",", ".", "T", " ").Replace(m[1]))
	if err != nil {
		return nil, fmt.Errorf("%q is not a time", m[1])
	}
	// The stack of an exception is on the lines that follow.
	failed := strings.HasPrefix(m[4], "Exception")
	message, whole := strings.CutSuffix(strings.TrimRight(m[7], " "), "}")
	if !whole && !failed {
		return nil, errShort
	}
	thread := m[3]
	now := h.time(at.UnixNano(), thread)
	if m[4] == "Call ->" {
		c := &Call{Start: now, Sender: sender, Address: m[2], Target: server(m[5]), Method: m[6], Status: "open"}
		if c.Request, err = textFormat(message); err != nil {
			return nil, err
		}
		before := h.open[thread]
		h.open[thread] = c
		return before, nil // a call without a reply
	}
	c := h.open[thread]
	if c == nil || c.Method != m[6] {
		return nil, fmt.Errorf("a reply without its call: thread %s, %s", thread, m[6])
	}
	delete(h.open, thread)
	c.End, c.Status, c.Target = now, "200", server(m[5]) // the reply has the server's name, the call may not
	if failed {
		c.Status = "500"
		return c, c.complete()
	}
	if c.Response, err = textFormat(message); err != nil {
		return nil, err
	}
	return c, c.complete()
}

// server is the name, or else the address, and the port of a Java socket address,
// "name/address:port".
func server(s string) string {
	name, address, both := strings.Cut(s, "/")
	port := strings.LastIndexByte(address, ':')
	switch {
	case both && name == "":
		return address
	case both && port >= 0:
		return name + address[port:]
	}
	return s
}

// textFormat reads a protobuf message in its one-line text form. A field that
// occurs more than once is a list.
func textFormat(s string) ([]Leaf, error) {
	p := textScanner{s: s}
	fields, err := p.message(0)
	if err == nil && p.peek() == '}' {
		err = errors.New("a '}' too many")
	}
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return flattenText(nil, "", fields), nil
}

type textField struct {
	name  string
	leaf  Leaf
	inner []textField
	whole bool // a message, not a leaf
}

type textScanner struct {
	s  string
	at int
}

func (p *textScanner) peek() byte {
	for p.at < len(p.s) && (p.s[p.at] == ' ' || p.s[p.at] == ',') {
		p.at++
	}
	if p.at >= len(p.s) {
		return 0
	}
	return p.s[p.at]
}

func (p *textScanner) message(depth int) ([]textField, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	var out []textField
	for {
		if c := p.peek(); c == 0 || c == '}' {
			return out, nil
		}
		f := textField{name: p.word()}
		if f.name == "" {
			return nil, fmt.Errorf("expected a field at %q", p.s[p.at:])
		}
		if p.peek() == ':' {
			p.at++
		}
		var err error
		if p.peek() == '{' {
			p.at++
			f.whole = true
			if f.inner, err = p.message(depth + 1); err == nil && p.peek() != '}' {
				err = errShort
			}
			p.at++
		} else {
			f.leaf, err = p.value()
		}
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
}

func (p *textScanner) word() string {
	start := p.at
	for p.at < len(p.s) && !strings.ContainsRune(` :{}",`, rune(p.s[p.at])) {
		p.at++
	}
	return p.s[start:p.at]
}

func (p *textScanner) value() (Leaf, error) {
	if p.peek() == '"' {
		return p.quoted()
	}
	word := p.word()
	if word == "" {
		return Leaf{}, errShort
	}
	switch _, err := strconv.ParseFloat(word, 64); {
	case word == "true" || word == "false":
		return Leaf{Kind: Bool, Value: word}, nil
	case err == nil && !strings.ContainsAny(word, ".eEnN"):
		return Leaf{Kind: Int, Value: word}, nil
	case err == nil && strings.ContainsAny(word, "0123456789"):
		return Leaf{Kind: Float, Value: word}, nil
	}
	return Leaf{Kind: String, Value: word}, nil
}

func (p *textScanner) quoted() (Leaf, error) {
	for end := p.at + 1; end < len(p.s); end++ {
		switch p.s[end] {
		case '\\':
			end++
		case '"':
			text := p.s[p.at+1 : end]
			p.at = end + 1
			return Leaf{Kind: String, Value: unescape(text)}, nil
		}
	}
	return Leaf{}, errShort
}

// unescape gives the text in quotes; bytes that are no text as base64, like everywhere
// else.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `\'`, `'`) + `"`)
	switch {
	case err != nil:
		return s
	case !utf8.ValidString(plain) || strings.ContainsFunc(plain, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }):
		return "base64:" + base64.StdEncoding.EncodeToString([]byte(plain))
	}
	return plain
}

func flattenText(into []Leaf, prefix string, fields []textField) []Leaf {
	times, seen := map[string]int{}, map[string]int{}
	for _, f := range fields {
		times[f.name]++
	}
	for _, f := range fields {
		path := prefix + string(appendKey(nil, f.name))
		if times[f.name] > 1 {
			path += "[" + strconv.Itoa(seen[f.name]) + "]"
			seen[f.name]++
		}
		if f.whole {
			into = flattenText(into, path+".", f.inner)
			continue
		}
		f.leaf.Path = path
		into = append(into, f.leaf)
	}
	return into
}
