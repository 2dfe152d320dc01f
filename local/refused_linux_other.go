//go:build !amd64 && !arm64

package local

import "golang.org/x/sys/unix"

const (
	arch          = 0 // not known: nothing is refused
	foreignCalls  = 0xffffffff
	kexecFileLoad = unix.SYS_KEXEC_LOAD // a file cannot be loaded on every architecture
)
