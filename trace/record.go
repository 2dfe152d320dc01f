package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// record reads the common record from p into c.
func (c *Call) record(p *scanner) error {
	err := p.fields(func(key string) (err error) {
		switch key {
		case "run":
			c.Run, err = p.str()
		case "scale":
			c.Scale, err = p.positive()
		case "id":
			c.ID, err = p.str()
		case "parent":
			c.Parent, err = p.str()
		case "time":
			c.Start, err = p.instant()
		case "end":
			c.End, err = p.instant()
		case "sender":
			c.Sender, err = p.str()
		case "address":
			c.Address, err = p.str()
		case "target":
			c.Target, err = p.str()
		case "method":
			c.Method, err = p.str()
		case "status":
			_, c.Status, err = p.scalar()
		case "request":
			c.Request, err = p.flat(c.Request)
		case "response":
			c.Response, err = p.flat(c.Response)
		default:
			err = p.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.complete()
}

// complete checks that a call has everything that a call needs.
func (c *Call) complete() error {
	switch {
	case c.Method == "" && len(c.Response) > 0:
		return errors.New("a reply without its call: no method")
	case c.Method == "":
		return errors.New("no method")
	case c.Sender == "":
		return errors.New("no sender")
	case c.Start == 0:
		return errors.New("no time")
	case c.End != 0 && c.End < c.Start:
		return fmt.Errorf("the clock runs backwards: the reply is %v before the call", time.Duration(c.Start-c.End))
	}
	return nil
}

// flat reads a message. In the common record a message is an object from path to value.
// Nested values are flattened too, so that a record can be written by hand.
func (p *scanner) flat(into []Leaf) ([]Leaf, error) {
	if p.peek() != '{' {
		return p.leaves(into)
	}
	length := len(p.path)
	err := p.members(func(key string) (err error) {
		p.path = append(p.path, key...)
		into, err = p.leaves(into)
		p.path = p.path[:length]
		return err
	})
	return into, err
}

func (p *scanner) positive() (int, error) {
	kind, text, err := p.scalar()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if kind != Int || err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a positive number", text)
	}
	if n > MaxScale {
		return 0, fmt.Errorf("%d is above %d", n, MaxScale)
	}
	return n, nil
}

// instant reads a time: RFC 3339, or a number of seconds since 1970.
func (p *scanner) instant() (int64, error) {
	kind, text, err := p.scalar()
	if err != nil {
		return 0, err
	}
	if kind == Int || kind == Float {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || seconds <= 0 || seconds > 9e9 {
			return 0, fmt.Errorf("%q is not a time", text)
		}
		return int64(seconds * 1e9), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		return 0, fmt.Errorf("%q is not a time", text)
	}
	return t.UnixNano(), nil
}

// A Writer writes calls as the common record.
type Writer struct {
	w   *bufio.Writer
	buf []byte
}

// NewWriter returns a Writer to w; call Flush at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<16)} }

// Write writes one call as one line.
func (w *Writer) Write(c *Call) error {
	b := append(w.buf[:0], '{')
	b = field(b, "run", c.Run)
	if c.Scale > 0 {
		b = strconv.AppendInt(append(b, `"scale":`...), int64(c.Scale), 10)
		b = append(b, ',')
	}
	b = field(b, "id", c.ID)
	b = field(b, "parent", c.Parent)
	b = field(b, "time", stamp(c.Start))
	if c.End != 0 {
		b = field(b, "end", stamp(c.End))
	}
	b = field(b, "sender", c.Sender)
	b = field(b, "address", c.Address)
	b = field(b, "target", c.Target)
	b = field(b, "method", c.Method)
	b = append(b, `"request":`...)
	b = message(b, c.Request)
	b = append(b, `,"response":`...)
	b = message(b, c.Response)
	if c.Status != "" {
		b = quote(append(b, `,"status":`...), c.Status)
	}
	w.buf = append(b, '}', '\n')
	_, err := w.w.Write(w.buf)
	return err
}

// Flush writes out what is buffered.
func (w *Writer) Flush() error { return w.w.Flush() }

func stamp(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }

func field(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, '"'), key...), `":`...)
	return append(quote(b, value), ',')
}

func message(b []byte, leaves []Leaf) []byte {
	b = append(b, '{')
	for i, l := range leaves {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(quote(b, l.Path), ':')
		if l.Kind == String {
			b = quote(b, l.Value)
		} else {
			b = append(b, l.Value...)
		}
	}
	return append(b, '}')
}

// quote appends s as a JSON string.
func quote(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
