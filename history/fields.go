package history

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name of a server, a tenant or a cause, in bytes.
const maxName = 255

var tens = [...]uint64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// decimal reads "123.45" as 12345 and 2 decimals. It reports false for anything
// else, and for more than 18 digits or 9 decimals.
func decimal(b []byte) (digits uint64, decimals int, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, 0, false
	}
	point := -1
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			digits = digits*10 + uint64(c-'0')
		case c == '.' && point < 0:
			point = i
		default:
			return 0, 0, false
		}
	}
	if point < 0 {
		return digits, 0, len(b) <= 18
	}
	decimals = len(b) - point - 1
	return digits, decimals, decimals < len(tens) && len(b) > 1
}

// float reads a number that decimal does not: with a sign, an exponent or many
// digits. It refuses nan, inf and hexadecimal.
func float(b []byte) (float64, bool) {
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// percent reads a percentage of the server as a share from 0 to 1.
func percent(what string, b []byte) (float32, error) {
	if digits, decimals, ok := decimal(b); ok && decimals <= 4 && digits <= 100*tens[decimals] {
		return fromMillionths(int32(digits * tens[4-decimals])), nil
	}
	v, ok := float(bytes.TrimSpace(b))
	switch {
	case !ok:
		return 0, badf("%s %s is not a number", what, show(b))
	case v < 0:
		return 0, badf("%s %s is negative", what, show(b))
	}
	share, ok := Clamp(v / 100)
	if !ok {
		return 0, badf("%s %s is over %.0f%%: it should be in percent of the whole server, not of one core", what, show(b), 100*(1+Tolerance))
	}
	return fromMillionths(toMillionths(share)), nil
}

// moment reads a time, Unix seconds or RFC 3339, as Unix milliseconds.
func moment(b []byte) (int64, error) {
	milli, ok := int64(0), false
	if digits, decimals, plain := decimal(b); plain && digits < 1e18 {
		ok = true
		if decimals <= 3 {
			milli = int64(min(digits, 1e15) * tens[3-decimals])
		} else {
			milli = int64(digits / tens[decimals-3])
		}
	} else if seconds, number := float(bytes.TrimSpace(b)); number {
		ok = true
		milli = int64(math.Floor(max(-1, min(seconds*1000, 1e16))))
	} else if t, err := time.Parse(time.RFC3339Nano, string(bytes.TrimSpace(b))); err == nil {
		milli, ok = t.UnixMilli(), true
	}
	switch {
	case !ok:
		return 0, badf("time %s is neither Unix seconds nor RFC 3339 (2006-01-02T15:04:05Z)", show(b))
	case milli < 0:
		return 0, badf("time %s is before 1970", show(b))
	case milli >= lastMilli:
		return 0, badf("time %s is after the year 2199: it should be in seconds", show(b))
	}
	return milli, nil
}

// ParseTime reads a time as the CSV files have it: Unix seconds or RFC 3339.
func ParseTime(text string) (time.Time, error) {
	milli, err := moment([]byte(text))
	return time.UnixMilli(milli).UTC(), err
}

// A nameSet gives the same string for the same name, and checks each name once.
type nameSet struct {
	known map[string]*name
	last  *name
}

// A name remembers which name came after it the last time. Files are sorted by
// server, so that the name stays the same, or by time, so that the names repeat
// in the same order: in both cases it is rarely looked up in the map.
type name struct {
	text string
	next *name
}

// get gives the name in b.
func (n *nameSet) get(what string, b []byte) (string, error) {
	last := n.last
	if last != nil && last.text == string(b) {
		return last.text, nil
	}
	if last != nil && last.next != nil && last.next.text == string(b) {
		n.last = last.next
		return n.last.text, nil
	}
	now := n.known[string(b)]
	if now == nil {
		if err := checkName(what, b); err != nil {
			return "", err
		}
		if n.known == nil {
			n.known = map[string]*name{}
		}
		now = &name{text: string(b)}
		n.known[now.text] = now
	}
	if last != nil {
		last.next = now
	}
	n.last = now
	return now.text, nil
}

// CheckName returns an error if name breaks the rules of the CSV files for a server's name.
func CheckName(name string) error { return checkName("server", []byte(name)) }

func checkName(what string, b []byte) error {
	switch {
	case len(b) == 0:
		return badf("the %s is empty", what)
	case len(b) > maxName:
		return badf("the %s %s is longer than %d bytes", what, show(b), maxName)
	case !utf8.Valid(b):
		return badf("the %s %s is not UTF-8", what, show(b))
	case bytes.ContainsFunc(b, unicode.IsControl):
		return badf("the %s %s has a control character in it", what, show(b))
	case len(bytes.TrimSpace(b)) != len(b):
		return badf("the %s %s has a space at its edge", what, show(b))
	}
	return nil
}
