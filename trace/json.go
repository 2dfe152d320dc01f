package trace

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A scanner reads one JSON document in a string. Values without escapes are returned as
// parts of that string: a trace is mostly short values, and copying them would take
// more time than everything else.
type scanner struct {
	s     string
	at    int
	depth int
	path  []byte
	paths map[string]string // every path is kept once
}

const maxDepth = 100

var errShort = errors.New("ends in the middle of a value")

func (p *scanner) reset(s string) {
	p.s, p.at, p.depth, p.path = s, 0, 0, p.path[:0]
	if p.paths == nil {
		p.paths = map[string]string{}
	}
}

func (p *scanner) space() {
	for p.at < len(p.s) {
		switch p.s[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

func (p *scanner) expect(c byte) error {
	p.space()
	if p.at >= len(p.s) {
		return errShort
	}
	if p.s[p.at] != c {
		return fmt.Errorf("column %d: expected %q, found %q", p.at+1, c, p.s[p.at])
	}
	p.at++
	return nil
}

// peek gives the next byte that is not space, 0 at the end.
func (p *scanner) peek() byte {
	p.space()
	if p.at >= len(p.s) {
		return 0
	}
	return p.s[p.at]
}

// members calls visit for each member of the object that starts here; visit
// must consume the member's value.
func (p *scanner) members(visit func(key string) error) error {
	return p.items('{', '}', func(int) error {
		key, err := p.str()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		return visit(key)
	})
}

// fields is members with the name of the field added to errors, unless the line ends
// too early.
func (p *scanner) fields(visit func(key string) error) error {
	return p.members(func(key string) error {
		err := visit(key)
		if err != nil && !errors.Is(err, errShort) {
			return fmt.Errorf("%s: %w", key, err)
		}
		return err
	})
}

func (p *scanner) items(open, end byte, visit func(i int) error) error {
	if err := p.expect(open); err != nil {
		return err
	}
	if p.depth++; p.depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	if p.peek() == end {
		p.at++
		return nil
	}
	for i := 0; ; i++ {
		if err := visit(i); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.at++
		case end:
			p.at++
			return nil
		case 0:
			return errShort
		default:
			return fmt.Errorf("column %d: expected ',' or %q, found %q", p.at+1, end, p.s[p.at])
		}
	}
}

// str reads a string.
func (p *scanner) str() (string, error) {
	if err := p.expect('"'); err != nil {
		return "", err
	}
	start := p.at
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case c == '"':
			p.at++
			return p.s[start : p.at-1], nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", fmt.Errorf("column %d: control character in a string", p.at+1)
		}
		p.at++
	}
	return "", errShort
}

// escaped reads the rest of a string that holds escapes.
func (p *scanner) escaped(start int) (string, error) {
	var out strings.Builder
	out.WriteString(p.s[start:p.at])
	for p.at < len(p.s) {
		c := p.s[p.at]
		p.at++
		switch {
		case c == '"':
			return out.String(), nil
		case c < ' ':
			return "", fmt.Errorf("column %d: control character in a string", p.at)
		case c != '\\':
			out.WriteByte(c)
			continue
		}
		if p.at >= len(p.s) {
			return "", errShort
		}
		c = p.s[p.at]
		p.at++
		switch c {
		case '"', '\\', '/':
			out.WriteByte(c)
		case 'b', 'f', 'n', 'r', 't':
			out.WriteByte("\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		case 'u':
			r, err := p.hex4()
			if err != nil {
				return "", err
			}
			if utf16.IsSurrogate(r) && strings.HasPrefix(p.s[p.at:], `\u`) {
				p.at += 2
				low, err := p.hex4()
				if err != nil {
					return "", err
				}
				r = utf16.DecodeRune(r, low)
			}
			if utf16.IsSurrogate(r) {
				r = utf8.RuneError
			}
			out.WriteRune(r)
		default:
			return "", fmt.Errorf("column %d: unknown escape \\%c", p.at, c)
		}
	}
	return "", errShort
}

func (p *scanner) hex4() (rune, error) {
	if p.at+4 > len(p.s) {
		return 0, errShort
	}
	v, err := strconv.ParseUint(p.s[p.at:p.at+4], 16, 32)
	if err != nil {
		return 0, fmt.Errorf("column %d: bad \\u escape", p.at+1)
	}
	p.at += 4
	return rune(v), nil
}

// scalar reads a string, number, true, false or null.
func (p *scanner) scalar() (Kind, string, error) {
	switch c := p.peek(); {
	case c == 0:
		return Null, "", errShort
	case c == '"':
		s, err := p.str()
		return String, s, err
	case c == 't', c == 'f', c == 'n':
		for i, word := range [...]string{"null", "true", "false"} {
			if strings.HasPrefix(p.s[p.at:], word) {
				p.at += len(word)
				if i == 0 {
					return Null, word, nil
				}
				return Bool, word, nil
			}
		}
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return Null, "", fmt.Errorf("column %d: expected a value, found %q", p.at+1, p.s[p.at])
}

func (p *scanner) number() (Kind, string, error) {
	start, kind := p.at, Int
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case c >= '0' && c <= '9', c == '-' && p.at == start:
		case c == '.' || c == 'e' || c == 'E' || (c == '-' || c == '+') && kind == Float:
			kind = Float
		default:
			return p.checked(kind, start)
		}
		p.at++
	}
	return p.checked(kind, start)
}

func (p *scanner) checked(kind Kind, start int) (Kind, string, error) {
	text := p.s[start:p.at]
	if kind == Float {
		if _, err := strconv.ParseFloat(text, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, "", fmt.Errorf("column %d: bad number %q", start+1, text)
		}
	} else if text == "-" {
		return 0, "", fmt.Errorf("column %d: bad number %q", start+1, text)
	}
	return kind, text, nil
}

// skip skips any value.
func (p *scanner) skip() error {
	switch p.peek() {
	case '{':
		return p.members(func(string) error { return p.skip() })
	case '[':
		return p.items('[', ']', func(int) error { return p.skip() })
	}
	_, _, err := p.scalar()
	return err
}

// leaves appends every leaf of the value that starts here, in order.
func (p *scanner) leaves(into []Leaf) ([]Leaf, error) {
	length := len(p.path)
	defer func() { p.path = p.path[:length] }()
	switch p.peek() {
	case '{':
		err := p.members(func(key string) (err error) {
			if length > 0 {
				p.path = append(p.path, '.')
			}
			p.path = appendKey(p.path, key)
			into, err = p.leaves(into)
			p.path = p.path[:length]
			return err
		})
		return into, err
	case '[':
		err := p.items('[', ']', func(i int) (err error) {
			p.path = append(strconv.AppendInt(append(p.path, '['), int64(i), 10), ']')
			into, err = p.leaves(into)
			p.path = p.path[:length]
			return err
		})
		return into, err
	}
	kind, value, err := p.scalar()
	if err != nil || kind == Null {
		return into, err
	}
	return append(into, Leaf{Path: p.internPath(), Kind: kind, Value: value}), nil
}

func (p *scanner) internPath() string {
	if known, ok := p.paths[string(p.path)]; ok {
		return known
	}
	fresh := string(p.path)
	p.paths[fresh] = fresh
	return fresh
}

// appendKey writes a key so that a path can be taken apart again: a dot or a
// bracket inside the key is escaped.
func appendKey(path []byte, key string) []byte {
	for i := range len(key) {
		if c := key[i]; c == '.' || c == '[' || c == '\\' {
			path = append(path, '\\')
		}
		path = append(path, key[i])
	}
	return path
}

// end is an error if something follows the document.
func (p *scanner) end() error {
	if p.peek() != 0 || p.at < len(p.s) {
		return fmt.Errorf("column %d: something follows the end of the record", p.at+1)
	}
	return nil
}
