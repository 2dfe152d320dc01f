package standard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

const (
	dataFile = "text.dat"
	dataSize = 256 << 20
	page     = 4096 // lengths must be multiples of this to bypass the page cache
)

// Prepare makes the file in dir that jobs read and write, unless it exists.
func Prepare(dir string) error {
	name := filepath.Join(dir, dataFile)
	if at, err := os.Stat(name); err == nil && at.Size() == dataSize {
		return nil
	}
	f, err := os.CreateTemp(dir, dataFile+"-")
	if err != nil {
		return fmt.Errorf("standard: %w", err)
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("standard: make %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// fill writes text that compresses about as well as logs do, one block of it
// over and over.
func fill(f *os.File) error {
	rng := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, 0, block+128)
	for len(text) < block {
		text = append(text, "request "...)
		for range 2 {
			text = strconv.AppendUint(text, rng.Uint64(), 36)
		}
		text = append(text, " took "...)
		text = strconv.AppendInt(text, rng.Int64N(10000), 10)
		text = append(text, " us\n"...)
	}
	for range dataSize / block {
		if _, err := f.Write(text[:block]); err != nil {
			return err
		}
	}
	return nil
}

// openData opens the file that Prepare makes, past the page cache.
func openData(dir string) (*os.File, error) {
	if err := Prepare(dir); err != nil {
		return nil, err
	}
	f, err := openDirect(filepath.Join(dir, dataFile))
	if err != nil {
		return nil, fmt.Errorf("standard: %w", err)
	}
	return f, nil
}
