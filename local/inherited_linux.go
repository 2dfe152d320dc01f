package local

import (
	"errors"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// KeepFiles makes sure that no file which this process inherited reaches the processes
// that it starts: tasks may be of other users.
func KeepFiles() error {
	const first = 3 // after the standard streams
	err := unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	names, err := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return err
}
