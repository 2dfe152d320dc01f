// Package input has the error for a mistake in a user's input: what is wrong, and
// where.
//
// A room that reads a file, a flag or a request reports every mistake as an
// Error. The command line turns an Error into one line on stderr and exit
// code 2; any other error is a failure, exit code 1.
package input

import (
	"errors"
	"fmt"
	"strings"
)

// An Error is one mistake in a user's input.
type Error struct {
	Where string // the file, or on the command line the flag with its dashes; may be empty
	Field string // the name of the setting, which is a flag on the command line and a box on a page
	Line  int    // 1-based line of the file; 0 if it is not a mistake of one line
	Msg   string // what is wrong, in one line
	Err   error  // the cause, for errors.Is and errors.As; may be nil
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error returns the mistake as "where:line: message".
func (e *Error) Error() string {
	switch {
	case e.Field != "":
		return e.Field + ": " + e.Msg
	case e.Where == "":
		return e.Msg
	case e.Line == 0:
		return e.Where + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.Where, e.Line, e.Msg)
}

// Fieldf reports a mistake in a field.
func Fieldf(field, format string, args ...any) error {
	return &Error{Field: field, Msg: fmt.Sprintf(format, args...)}
}

// Errorf reports a mistake at where, a file or a flag, on no line in particular.
func Errorf(where, format string, args ...any) error {
	return &Error{Where: where, Msg: fmt.Sprintf(format, args...)}
}

// Linef reports a mistake on one line of a file.
func Linef(file string, line int, format string, args ...any) error {
	return &Error{Where: file, Line: line, Msg: fmt.Sprintf(format, args...)}
}

// Errors are several mistakes, reported together in the order found.
type Errors []*Error

// Error lists one mistake a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether err was caused by the user's input.
func Is(err error) bool {
	var one *Error
	var many Errors
	return errors.As(err, &one) || errors.As(err, &many)
}
