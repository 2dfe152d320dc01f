package colocation

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetPages makes the kernel read f from the disk again.
func forgetPages(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
