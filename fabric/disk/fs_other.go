//go:build !linux

package disk

import (
	"errors"
	"io"
)

var errLinux = errors.New("disks are kept on Linux only")

func (OS) Lock(string) (io.Closer, error) { return nil, errLinux }
func (OS) Free(string) (int64, error)     { return 0, errLinux }
func (osFile) Allocate(int64) error       { return errLinux }
