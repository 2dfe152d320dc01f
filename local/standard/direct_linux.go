package standard

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openDirect opens a file past the page cache, or says that the file system refuses.
func openDirect(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("the file system of %s does not let reads bypass the page cache (O_DIRECT): %w", name, err)
	}
	return f, err
}

// huge is the size of a large page.
const huge = 2 << 20

// aligned returns memory for direct reads from a disk, in large pages if the kernel
// has them: with small ones the kernel spends as much time on pages as the disk
// does on data.
func aligned(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size+huge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	skip := huge - int(uintptr(unsafe.Pointer(&b[0]))%huge)
	return b[skip : skip+size : skip+size], nil
}
