package local

import "golang.org/x/sys/unix"

const (
	arch          = unix.AUDIT_ARCH_AARCH64
	foreignCalls  = 0xffffffff // there are none
	kexecFileLoad = unix.SYS_KEXEC_FILE_LOAD
)
