package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/history"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/pebble"
)

func addDataFlag(cmd *cobra.Command) {
	cmd.Flags().String("data", "", "data directory (default $XDG_DATA_HOME/gleaner, or ~/.local/share/gleaner)")
}

// dataDir is the directory that --data names, or the user's own.
func dataDir(cmd *cobra.Command) (string, error) {
	if dir, _ := cmd.Flags().GetString("data"); dir != "" {
		if strings.Contains(dir, "://") {
			return "", input.Errorf("--data", "%s is an address, and not a directory; only 'gleaner store' takes one", dir)
		}
		return dir, nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gleaner"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", input.Errorf("--data", "there is no home directory to keep data in; name a directory")
	}
	return filepath.Join(home, ".local", "share", "gleaner"), nil
}

// kvDir is the directory of the metadata within a data directory.
func kvDir(dir string) string { return filepath.Join(dir, "kv") }

// openData opens the metadata in the data directory, which is made if it is missing.
func openData(cmd *cobra.Command) (kv.Store, error) {
	dir, err := dataDir(cmd)
	if err != nil {
		return nil, err
	}
	return openDataIn(cmd, dir)
}

// openDataIn opens the metadata in a data directory.
func openDataIn(cmd *cobra.Command, dir string) (_ kv.Store, err error) {
	real := dir
	if os.Geteuid() == 0 { // anyone who can change it could make root write anywhere
		if real, err = trustData(dir); err != nil {
			return nil, err
		}
	}
	return openStore(dir, real, pebble.Options{Short: func(lack error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "gleaner: the store in %s has no room: %v\n", dir, lack)
		os.Exit(exitFailure) // the store waits for room; a command does not
	}})
}

// openStore opens the metadata in the data directory real, which the user calls dir.
func openStore(dir, real string, o pebble.Options) (kv.Store, error) {
	if err := trustStore(real); err != nil {
		return nil, err
	}
	store, err := pebble.Open(kvDir(real), o)
	switch {
	case errors.Is(err, kv.ErrHeld):
		return nil, heldError{input.Errorf("--data", "another process holds %s; stop it first, or name another directory", dir)}
	case input.Is(err):
		return nil, input.Errorf("--data", "%v", err)
	case err != nil:
		return nil, err
	}
	return store, nil
}

// A heldError is an input error, and kv.ErrHeld for callers that wait.
type heldError struct{ error }

func (e heldError) Unwrap() []error { return []error{e.error, kv.ErrHeld} }

// withHistory opens the history in the data directory while do runs.
func withHistory(cmd *cobra.Command, do func(*history.Store) error) (err error) {
	store, err := openData(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := history.Open(cmd.Context(), store, time.Now)
	if err != nil {
		return err
	}
	return do(s)
}

// withOldHistory is withHistory for commands that need a history: a data directory
// that is missing, or empty as after a failed import, is a mistake, and is not made.
func withOldHistory(cmd *cobra.Command, do func(*history.Store) error) error {
	dir, err := dataDir(cmd)
	if err != nil {
		return err
	}
	none := input.Errorf("--data", "no history in %s yet; see 'gleaner history import --help'", dir)
	if _, err := os.Stat(kvDir(dir)); errors.Is(err, fs.ErrNotExist) {
		return none
	}
	return withHistory(cmd, func(s *history.Store) error {
		servers, err := s.Servers(cmd.Context())
		if err != nil {
			return err
		}
		reimages, err := s.Reimages(cmd.Context())
		if err != nil {
			return err
		}
		if len(servers)+len(reimages) == 0 {
			return none
		}
		return do(s)
	})
}
