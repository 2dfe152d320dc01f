package local

import "golang.org/x/sys/unix"

const (
	arch          = unix.AUDIT_ARCH_X86_64
	foreignCalls  = 0x40000000 // x32 has its numbers from here on
	kexecFileLoad = unix.SYS_KEXEC_FILE_LOAD
)
