package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// A VDiskID names the vDisk whose lease covers a group.
type VDiskID uint64

// fences are the highest tokens seen, by vDisk: a writer with a lower one lost
// its lease. They are one small file, replaced at each change of a lease.
type fences struct {
	mu      sync.RWMutex
	highest map[VDiskID]uint64
	fsys    FS
	name    string
}

// enter refuses a token lower than the highest, and makes a higher one durable.
// A write that was let in has left before a higher token is, so that none takes
// effect behind it.
func (f *fences) enter(vdisk VDiskID, token uint64) error {
	for {
		f.mu.RLock()
		highest := f.highest[vdisk]
		if token == highest {
			return nil
		}
		f.mu.RUnlock()
		if err := f.raise(vdisk, token); err != nil {
			return err
		}
	}
}

func (f *fences) leave() { f.mu.RUnlock() }

func (f *fences) raise(vdisk VDiskID, token uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	highest := f.highest[vdisk]
	if token < highest {
		return &FenceError{vdisk, token, highest}
	}
	if token == highest {
		return nil
	}
	next := maps.Clone(f.highest)
	next[vdisk] = token
	if err := replace(f.fsys, f.name, encodeFences(next)); err != nil {
		return fmt.Errorf("disk: fence vDisk %d at %d: %w", vdisk, token, err)
	}
	f.highest = next
	return nil
}

const (
	fencesMagic = "gleanfnc"
	fenceBytes  = 16
)

func encodeFences(highest map[VDiskID]uint64) []byte {
	out := []byte(fencesMagic)
	for _, vdisk := range slices.Sorted(maps.Keys(highest)) {
		out = binary.LittleEndian.AppendUint64(out, uint64(vdisk))
		out = binary.LittleEndian.AppendUint64(out, highest[vdisk])
	}
	return binary.LittleEndian.AppendUint32(out, checksum(out))
}

func decodeFences(data []byte) (map[VDiskID]uint64, error) {
	body := len(data) - 4
	if body < len(fencesMagic) || string(data[:len(fencesMagic)]) != fencesMagic || (body-len(fencesMagic))%fenceBytes != 0 {
		return nil, errors.New("not a file of fences")
	}
	if binary.LittleEndian.Uint32(data[body:]) != checksum(data[:body]) {
		return nil, errors.New("checksum is wrong")
	}
	highest := map[VDiskID]uint64{}
	for at := len(fencesMagic); at < body; at += fenceBytes {
		highest[VDiskID(binary.LittleEndian.Uint64(data[at:]))] = binary.LittleEndian.Uint64(data[at+8:])
	}
	return highest, nil
}

func readFences(fsys FS, dir string) (*fences, error) {
	name := filepath.Join(dir, fencesFile)
	data, err := readWhole(fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	highest, err := decodeFences(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, fencesFile, err)
	}
	return &fences{highest: highest, fsys: fsys, name: name}, nil
}
