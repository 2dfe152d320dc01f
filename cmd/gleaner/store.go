package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/transfer"
)

func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Copy, check and measure stores of metadata",
		Long: `A store holds all metadata: the history, jobs, disks. It is a data directory of
this machine, or a keyspace of Apache Cassandra:

  cassandra://HOST[:PORT],…/KEYSPACE[?dc=NAME&replicas=N&login=FILE&tls=on&ca=FILE&cert=FILE&key=FILE]

The user and the password are the two lines of the file that login names, or in the
environment, as GLEANER_CASSANDRA_USER and GLEANER_CASSANDRA_PASSWORD.

Commands that take --data take such a store as --store: 'gleaner up', 'node', 'history',
'disk', 'classify' and 'reimages'. Any number of them may use one keyspace at once.`,
		Example: `  gleaner store stat ~/.local/share/gleaner
  gleaner history import --store 'cassandra://h1,h2,h3/gleaner?dc=dc1' cpu.csv.gz
  gleaner store copy ~/.local/share/gleaner 'cassandra://h1,h2,h3/gleaner?dc=dc1'`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newStoreCopy(), newStoreCheck(), newStoreStat())
	return cmd
}

func newStoreCopy() *cobra.Command {
	return &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a store to another, which is empty",
		Long: `Copy copies all records of a store, with their versions, to another that is empty or does not exist,
and compares them in the end. Nobody may use either meanwhile. A copy that was interrupted goes on
where it was when the same command is given again; until it is complete
only 'check' and 'stat' take TO as well.`,
		Example: `  gleaner store copy ~/.local/share/gleaner 'cassandra://h1,h2,h3/gleaner?dc=dc1'
  gleaner store copy cassandra://h1/gleaner /srv/gleaner`,
		Args: twoArgs("store to copy from", "store to copy to"),
		RunE: func(cmd *cobra.Command, args []string) error { return runStoreCopy(cmd, args[0], args[1]) },
	}
}

func runStoreCopy(cmd *cobra.Command, from, to string) (err error) {
	if from == to || filepath.Clean(from) == filepath.Clean(to) {
		return input.Errorf("", "a store cannot be copied to itself")
	}
	source, err := place{name: from, partial: true}.open(cmd, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := sound(cmd.Context(), source, from); err != nil {
		return err
	}
	target, err := place{name: to, partial: true}.open(cmd, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	bars := map[string]*progress{}
	defer func() {
		for _, b := range bars {
			b.finish()
		}
	}()
	result, err := transfer.Copy{From: source, To: target, Source: place{name: from}.id(), Target: place{name: to}.id(), Progress: func(doing string, records int64) {
		if bars[doing] == nil {
			bars[doing] = newProgress(cmd, doing, 0)
		}
		bars[doing].add(records - bars[doing].done)
	}}.Do(cmd.Context())
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, result)
	}
	if err := printSums(cmd.OutOrStdout(), result.Tables); err != nil {
		return err
	}
	did := "copied " + counted(result.Copied, "record")
	switch {
	case result.Resumed && result.Copied == 0:
		did = "all records had been copied before, and were compared now"
	case result.Resumed:
		did += ", the rest of a copy that was interrupted"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; both stores are equal\n", did)
	return err
}

func newStoreCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check STORE",
		Short: "Read every record and check how the store keeps it",
		Long: `Check reads every record of every table, with the checksums below it, and makes sure that rows are in
order and that none comes twice. On Cassandra it makes sure that every table is there. It does not look at what
records mean: 'gleaner disk check' does for disks. It changes nothing. The exit code is 1 if something is wrong,
also if a copy into the store was interrupted.`,
		Example: `  gleaner store check cassandra://h1/gleaner`,
		Args:    oneStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			sums, err := measureStore(cmd, "checking", args[0])
			if err == nil && slices.ContainsFunc(sums, transfer.Sum.Diary) {
				err = fmt.Errorf("%s: a copy into this store was interrupted, unless one is under way; 'gleaner store copy FROM TO' resumes it", args[0])
			}
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, map[string]any{"tables": sums})
			}
			var records int64
			for _, s := range sums {
				records += s.Records
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "read %s in %s: all is well\n", counted(records, "record"), counted(len(sums), "table"))
			return err
		},
	}
}

func newStoreStat() *cobra.Command {
	return &cobra.Command{
		Use:   "stat STORE",
		Short: "Count what is in each table",
		Long: `Stat reads the whole store and prints of each table how many parts and records it has, and how many
bytes these are. Tables with the same records have the same digest, in any store.`,
		Example: `  gleaner store stat ~/.local/share/gleaner --json`,
		Args:    oneStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			sums, err := measureStore(cmd, "counting", args[0])
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, map[string]any{"tables": sums})
			}
			return printSums(cmd.OutOrStdout(), sums)
		},
	}
}

func oneStore(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return input.Errorf("", "'%s' takes a store; see --help", cmd.CommandPath())
	}
	return nil
}

// measureStore reads a store that is there.
func measureStore(cmd *cobra.Command, doing, name string) (sums []transfer.Sum, err error) {
	store, err := place{name: name, partial: true}.open(cmd, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := sound(cmd.Context(), store, name); err != nil {
		return nil, err
	}
	tables, err := store.Tables(cmd.Context())
	if err != nil {
		return nil, err
	}
	bar := newProgress(cmd, doing, 0)
	defer bar.finish()
	sums = []transfer.Sum{}
	for _, t := range tables {
		sum, err := transfer.Measure(cmd.Context(), store, t, func() { bar.add(1) })
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

// sound says what is wrong with a store's list of tables, if it can tell.
func sound(ctx context.Context, store kv.Store, name string) error {
	s, ok := store.(interface {
		Flaws(context.Context) ([]string, error)
	})
	if !ok {
		return nil
	}
	flaws, err := s.Flaws(ctx)
	if err == nil && len(flaws) > 0 {
		err = fmt.Errorf("%s: %s", name, strings.Join(flaws, "; "))
	}
	return err
}

func printSums(out io.Writer, sums []transfer.Sum) error {
	t := newTable("table", "kind", ">parts", ">records", ">size", "digest")
	for _, s := range sums {
		kind := "table"
		if s.Loose {
			kind = "loose"
		}
		t.row(s.Table, kind, strconv.FormatInt(s.Parts, 10), strconv.FormatInt(s.Records, 10), cluster.Bytes(s.Bytes).Text(), s.Digest[:16])
	}
	return t.print(out)
}
