//go:build !linux

package standard

import (
	"fmt"
	"os"
	"runtime"
)

func openDirect(name string) (*os.File, error) {
	return nil, fmt.Errorf("%s: bypassing the page cache is supported on Linux only, not on %s", name, runtime.GOOS)
}

func aligned(size int) ([]byte, error) { return make([]byte, size), nil }
