package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// storeFile says which store --store named for the disks of a data directory, if any.
func storeFile(dir string) string { return filepath.Join(fabricDir(dir), "store") }

// remember notes where the disks of a data directory are, for commands that name no store: they would make others in the directory.
func (at place) remember(dir string) error {
	if err := trustBelow(dir, false, "fabric", "fabric/store"); err != nil {
		return err
	}
	if at.flag != "--store" {
		if err := os.Remove(storeFile(dir)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(fabricDir(dir), 0o700); err != nil {
		return err
	}
	return writeFile(storeFile(dir), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, at.id())
		return err
	})
}

// remembered is the store that a data directory remembers, or else the directory.
func (at place) remembered(dir string) (place, error) {
	text, err := os.ReadFile(storeFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, at.wrong("%s cannot be used: %v", dir, reason(err))
	}
	if _, err := trustData(dir); err != nil {
		return at, err
	}
	if err := trustBelow(dir, false, "fabric", "fabric/store"); err != nil {
		return at, err
	}
	return place{flag: at.flag, name: strings.TrimSuffix(string(text), "\n")}, nil
}
