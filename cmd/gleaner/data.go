package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
		return dir, nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gleaner"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", input.Errorf("--data", "there is no home directory to keep data in; name one")
	}
	return filepath.Join(home, ".local", "share", "gleaner"), nil
}

// kvDir is where the metadata lies within a data directory, beside what else will.
func kvDir(dir string) string { return filepath.Join(dir, "kv") }

// openData opens the metadata in the data directory, which is made if need be.
func openData(cmd *cobra.Command) (kv.Store, error) {
	dir, err := dataDir(cmd)
	if err != nil {
		return nil, err
	}
	real := dir
	if os.Geteuid() == 0 { // whoever can change it would have root write where he likes
		if real, err = trustData(dir); err != nil {
			return nil, err
		}
	}
	return openStore(dir, real, pebble.Options{Short: func(lack error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "gleaner: the store in %s has no room: %v\n", dir, lack)
		os.Exit(exitFailure) // the store would wait; a command does not
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

// A heldError is the user's mistake, and kv.ErrHeld to those who would rather wait.
type heldError struct{ error }

func (e heldError) Unwrap() []error { return []error{e.error, kv.ErrHeld} }

// withHistory opens the history in the data directory for the time of do.
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

// withOldHistory is withHistory for commands that need something to look at: a
// data directory that is not there, and is not made, or one with nothing in it,
// as a failed import leaves it, is a mistake.
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
