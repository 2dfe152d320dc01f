package program

import "strings"

// EachWord visits the words of a text: its pieces of letters and digits, and a
// number with its minus where one stands alone.
func EachWord(text string, visit func(start, end int)) {
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (isWord(text[i]) || start < 0 && isSign(text, i)) {
			if start < 0 {
				start = i
			}
		} else if start >= 0 {
			visit(start, i)
			start = -1
		}
	}
}

// Of is the word in a text; not ok when it has no such word.
func (w Word) Of(text string) (word string, ok bool) {
	if w <= 0 {
		return text, true
	}
	n := 0
	EachWord(text, func(start, end int) {
		if n++; n == int(w) {
			word, ok = text[start:end], true
		}
	})
	return word, ok
}

// Plain takes the leading zeros of a number off, so that 0001 in a path is the 1 of a
// reply. Other texts stay as they are.
func Plain(text string) string {
	if len(text) < 2 || text[0] != '0' || strings.Trim(text, "0123456789") != "" {
		return text
	}
	if text = strings.TrimLeft(text, "0"); text == "" {
		return "0"
	}
	return text
}

// isSign reports whether a number starts here with its minus: "_-17" but not "a-17".
func isSign(text string, i int) bool {
	return text[i] == '-' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9' && (i == 0 || !isWord(text[i-1]))
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}
