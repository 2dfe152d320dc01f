package local

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// lacks are the errors that say that this machine has run out of something.
// They pass: they are nobody's failure, and what needed it waits.
var lacks = []struct {
	errno unix.Errno
	what  string
}{
	{unix.EMFILE, "too many open files"},
	{unix.ENFILE, "too many open files on this machine"},
	{unix.ENOMEM, "not enough memory to start a process"},
	{unix.EAGAIN, "too many processes"},
	{unix.ENOSPC, "no space left on the disk"},
	{unix.EDQUOT, "the disk quota is used up"},
}

// lack says what this machine has run out of; "" when err has another cause.
func lack(err error) string {
	for _, l := range lacks {
		if errors.Is(err, l.errno) {
			return l.what
		}
	}
	return ""
}

// patiently calls f until it does not lack anything.
func patiently(f func() error) error {
	for {
		if err := f(); lack(err) == "" {
			return err
		}
		time.Sleep(time.Second / 4)
	}
}
