package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/history"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/cassandra"
)

func addDataFlag(cmd *cobra.Command) {
	cmd.Flags().String("data", "", "data directory (default $XDG_DATA_HOME/gleaner, or ~/.local/share/gleaner)")
}

// dataDir is the directory that --data names, or the user's own.
func dataDir(cmd *cobra.Command) (string, error) {
	if dir, _ := cmd.Flags().GetString("data"); dir != "" {
		if strings.Contains(dir, "://") {
			return "", input.Errorf("--data", "%s is an address, and not a directory; see --store", cassandra.Shown(dir))
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

// openData opens the metadata that --store names, or that of the data directory.
// What is missing is made.
func openData(cmd *cobra.Command) (kv.Store, error) {
	at, err := metadata(cmd)
	if err != nil {
		return nil, err
	}
	return at.open(cmd, false)
}

// A heldError is an input error, and kv.ErrHeld for callers that wait.
type heldError struct{ error }

func (e heldError) Unwrap() []error { return []error{e.error, kv.ErrHeld} }

// withHistory opens the history while do runs.
func withHistory(cmd *cobra.Command, do func(*history.Store) error) error {
	at, err := metadataAlone(cmd)
	if err != nil {
		return err
	}
	return at.withHistory(cmd, false, do)
}

func (at place) withHistory(cmd *cobra.Command, existing bool, do func(*history.Store) error) (err error) {
	store, err := at.open(cmd, existing)
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

// withOldHistory is withHistory for commands that need a history: a store
// that is missing, or empty as after a failed import, is a mistake, and is not made.
func withOldHistory(cmd *cobra.Command, do func(*history.Store) error) error {
	at, err := metadataAlone(cmd)
	if err != nil {
		return err
	}
	none := input.Errorf(at.flag, "no history in %s yet; see 'gleaner history import --help'", at.name)
	if _, err := os.Stat(kvDir(at.name)); !at.remote() && errors.Is(err, fs.ErrNotExist) {
		return none
	}
	return at.withHistory(cmd, true, func(s *history.Store) error {
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
