package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gleaner/chart"
	"gleaner/lab"
)

// A kept result is that of one experiment, in the user's cache.
type kept struct {
	Code    string // that computed it
	Size    string // options in words
	Command string // that makes the same
	At      time.Time
	Seconds float64
	Tables  []lab.Table
	Figures []chart.Figure
}

// A cache keeps the last result of each experiment at each size. A cache that cannot
// be written keeps nothing.
type cache struct {
	dir  string // "" if the user has none
	code string
}

func openCache() (cache, error) {
	code, err := codeVersion()
	return cache{resultsDir(), code}, err
}

// resultsDir is where results are kept; "" if the user has no cache.
func resultsDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gleaner", "reproduce")
}

// codeVersion is the fingerprint of this binary: what is built from other code has
// another, also where no commit is recorded in it.
func codeVersion() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("reproduce: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reproduce: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("reproduce: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// sizeOf is the options in words: the same words mean the same result.
func sizeOf(o lab.Options) string {
	size := "default"
	switch {
	case o.Quick:
		size = "quick"
	case o.Full:
		size = "full"
	}
	size += ", " + counted(o.Seeds, "seed")
	if o.Days > 0 {
		size += ", " + counted(o.Days, "day")
	}
	if o.Target != "" {
		size += ", target " + o.Target
	}
	if o.Traces != "" {
		size += ", traces " + o.Traces
	}
	if o.Bitbrains != "" {
		size += ", Bitbrains of " + o.Bitbrains
	}
	return size
}

func (c cache) path(name, size string) string {
	sum := sha256.Sum256([]byte(size))
	return filepath.Join(c.dir, name+"."+hex.EncodeToString(sum[:6]))
}

// get finds a result that this code computed at this size.
func (c cache) get(name, size string) (kept, bool) {
	if c.dir == "" {
		return kept{}, false
	}
	k, err := readKept(c.path(name, size))
	return k, err == nil && k.Code == c.code && k.Size == size
}

// last is the latest result at any size and of any code.
func (c cache) last(name string) (latest kept, found bool) {
	if c.dir == "" {
		return kept{}, false
	}
	paths, _ := filepath.Glob(filepath.Join(c.dir, name+".*"))
	for _, path := range paths {
		if k, err := readKept(path); err == nil && k.At.After(latest.At) {
			latest, found = k, true
		}
	}
	return latest, found
}

func readKept(path string) (k kept, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return k, err
	}
	return k, gob.NewDecoder(bytes.NewReader(text)).Decode(&k)
}

// put keeps a result, unless part of it was left out: that is tried again.
func (c cache) put(name string, k kept) error {
	if c.dir == "" || slices.ContainsFunc(k.Tables, func(t lab.Table) bool { return len(t.Rows) == 0 }) {
		return nil
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(k); err != nil {
		return fmt.Errorf("reproduce: keep %s: %w", name, err)
	}
	err := os.MkdirAll(c.dir, 0o755)
	if err == nil {
		err = writeFile(c.path(name, k.Size), func(w io.Writer) error { return writeAll(w, text.Bytes()) })
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return nil
	}
	return err
}
