package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/cassandra"
	"gleaner/kv/pebble"
	"gleaner/kv/transfer"
)

// A place is where a store is: a data directory, or an address.
type place struct {
	flag    string // that named it; empty if an argument did
	name    string
	partial bool // a copy to it may be under way
}

// addStoreFlag adds --store beside --data.
func addStoreFlag(cmd *cobra.Command) {
	addDataFlag(cmd)
	cmd.Flags().String("store", "", "where the metadata is, if not in the data directory: cassandra://HOST,…/KEYSPACE[?dc=NAME], or another data directory; see 'gleaner store --help'")
}

// metadata is the place that --store names, or else the data directory.
func metadata(cmd *cobra.Command) (place, error) {
	if _, named := given(cmd, "store"); named {
		name, err := cmd.Flags().GetString("store")
		at := place{flag: "--store", name: name}
		return at, errors.Join(err, at.misspelt())
	}
	dir, err := dataDir(cmd)
	return place{flag: "--data", name: dir}, err
}

// metadataAlone is metadata, for commands that use nothing else of a data directory.
func metadataAlone(cmd *cobra.Command) (place, error) {
	_, data := given(cmd, "data")
	if _, store := given(cmd, "store"); data && store {
		return place{}, input.Errorf("--data", "is not used with --store; leave one of them out")
	}
	return metadata(cmd)
}

// remote says that the place is an address.
func (at place) remote() bool { return strings.Contains(at.name, "://") }

// misspelt refuses an address that lacks a slash and would be a directory, named after the password that may be in it.
func (at place) misspelt() error {
	scheme, slashes, _ := strings.Cut(cassandra.Scheme, "/")
	if rest, ok := strings.CutPrefix(at.name, scheme); ok && !strings.HasPrefix(rest, "/"+slashes) {
		return input.Errorf(cassandra.Shown(at.name), "is no directory, and an address begins with %s", cassandra.Scheme)
	}
	return nil
}

// open opens the store there. If it must be there, none is made.
func (at place) open(cmd *cobra.Command, existing bool) (kv.Store, error) {
	if at.remote() {
		return at.dial(cmd, existing)
	}
	if err := at.misspelt(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(kvDir(at.name)); existing && err != nil {
		return nil, input.Errorf(at.name, "is not a data directory: there is no store in %s", kvDir(at.name))
	}
	real := at.name
	if os.Geteuid() == 0 { // anyone who can change it could make root write anywhere
		var err error
		if real, err = trustData(at.name); err != nil {
			return nil, at.blamed(err)
		}
	}
	return at.openReal(cmd.Context(), real, pebble.Options{Short: func(lack error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "gleaner: the store in %s has no room: %v\n", at.name, lack)
		os.Exit(exitFailure) // the store waits for room; a command does not
	}})
}

// openReal opens the store in the directory real, which is the place's without symbolic links.
func (at place) openReal(ctx context.Context, real string, o pebble.Options) (kv.Store, error) {
	if err := trustStore(real); err != nil {
		return nil, err
	}
	store, err := pebble.Open(kvDir(real), o)
	switch {
	case errors.Is(err, kv.ErrHeld):
		return nil, heldError{at.wrong("another process holds %s; stop it first, or name another directory", at.name)}
	case input.Is(err):
		return nil, at.wrong("%v", err)
	case err != nil:
		return nil, err
	}
	return at.checked(ctx, store)
}

// checked closes a store that may not be used yet.
func (at place) checked(ctx context.Context, store kv.Store) (kv.Store, error) {
	if at.partial {
		return store, nil
	}
	err := transfer.Check(ctx, store)
	if errors.Is(err, transfer.ErrPartial) {
		err = at.wrong("%s %v; give the same 'gleaner store copy' again first", at.name, err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// dial opens the store at an address.
func (at place) dial(cmd *cobra.Command, existing bool) (kv.Store, error) {
	if scheme, _, _ := strings.Cut(at.name, "://"); scheme+"://" != cassandra.Scheme {
		return nil, input.Errorf(cassandra.Shown(at.name), "there are no stores at %s://; use a directory or %s", scheme, cassandra.Scheme)
	}
	a, err := cassandra.Parse(at.name)
	if err != nil {
		return nil, err
	}
	s, err := cassandra.Open(cmd.Context(), a, cassandra.Options{Existing: existing})
	if err != nil {
		return nil, err
	}
	return at.checked(cmd.Context(), s)
}

// wrong is a mistake in the place.
func (at place) wrong(format string, args ...any) error {
	return input.Errorf(cmp.Or(at.flag, at.name), format, args...)
}

// blamed makes a mistake in --data one of the flag or argument that named the place.
func (at place) blamed(err error) error {
	var mistake *input.Error
	if errors.As(err, &mistake) && mistake.Where == "--data" {
		return at.wrong("%s", mistake.Msg)
	}
	return err
}

// id is the name of a place by which a copy that goes on knows its source.
func (at place) id() string {
	if at.remote() {
		return at.name
	}
	if dir, err := filepath.Abs(at.name); err == nil {
		return dir
	}
	return at.name
}
