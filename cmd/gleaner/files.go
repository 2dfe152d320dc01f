package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
	"gleaner/input/compressed"
	"gleaner/kv/mem"
)

// historyFlags are the source of a command's history: files, or the data directory if
// none is named.
type historyFlags struct {
	files   []string
	servers []string
	skipBad bool
}

func (f *historyFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.files, "history", nil, "history file (time,server,cpu[,mem][,tenant]), plain, gzip or zstd, - for standard input; may be given again, and more may follow as arguments")
	cmd.Flags().StringArrayVar(&f.servers, "servers", nil, "servers file (server,environment,function,rack,cores,memory_mb,disk_gb); may be given again")
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "skip bad rows, and count them")
	addStoreFlag(cmd)
}

// where is the file or the flag that the history came from.
func (f *historyFlags) where(cmd *cobra.Command) string {
	flag, named := given(cmd, "store")
	if !named {
		flag = "--data"
	}
	return cmp.Or(strings.Join(f.files, ", "), flag)
}

// with opens the history while do runs. Files are read into memory and nothing is
// written.
func (f *historyFlags) with(cmd *cobra.Command, do func(*history.Store) error) error {
	servers, err := readServers(f.servers)
	if err != nil {
		return err
	}
	if len(f.files) == 0 {
		return withOldHistory(cmd, do)
	}
	store, err := history.Open(cmd.Context(), mem.New(), time.Now)
	if err != nil {
		return err
	}
	if err := importFiles(cmd.Context(), cmd, store, f.files, servers, history.ReadOptions{SkipBad: f.skipBad}); err != nil {
		return err
	}
	return do(store)
}

// listed are the servers of the history, as the servers files describe them.
func (f *historyFlags) listed(ctx context.Context, store *history.Store) ([]cluster.Server, error) {
	all, err := serversIn(ctx, store)
	if err != nil {
		return nil, err
	}
	files, err := readServers(f.servers)
	if err != nil || len(f.files) > 0 { // the history was read together with them
		return all, err
	}
	sizes := map[cluster.ServerID]cluster.Server{}
	for _, s := range files {
		sizes[s.ID] = s
	}
	for i, s := range all {
		if size, ok := sizes[s.ID]; ok {
			all[i].CPU, all[i].Memory, all[i].Disk = cmp.Or(size.CPU, s.CPU), cmp.Or(size.Memory, s.Memory), cmp.Or(size.Disk, s.Disk)
		}
	}
	return all, nil
}

// importFiles adds history files and servers to a store, all or nothing.
func importFiles(ctx context.Context, cmd *cobra.Command, store *history.Store, files []string, servers []cluster.Server, o history.ReadOptions) error {
	bar := newProgress(cmd, "reading", totalSize(files))
	defer bar.finish()
	return store.Import(ctx, func(im *history.Import) error {
		im.SetServers(servers)
		for _, path := range files {
			if _, err := importFile(ctx, cmd, im, path, o, bar); err != nil {
				return err
			}
		}
		return nil
	})
}

func importFile(ctx context.Context, cmd *cobra.Command, im *history.Import, path string, o history.ReadOptions, bar *progress) (history.ReadStats, error) {
	f, err := compressed.OpenWatched(path, func(n int64) { bar.add(n) })
	if err != nil {
		return history.ReadStats{}, err
	}
	defer f.Close()
	stats, err := history.ReadSamples(path, f, o, func(s history.Sample) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return im.Add(ctx, s)
	})
	if err == nil {
		tellSkipped(cmd, path, stats)
	}
	return stats, err
}

func tellSkipped(cmd *cobra.Command, path string, stats history.ReadStats) {
	if stats.Skipped > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "gleaner: %s: skipped %s of %d; the first: %v\n", path, counted(stats.Skipped, "bad row"), stats.Rows+stats.Skipped, stats.FirstBad)
	}
}

func totalSize(paths []string) int64 {
	var total int64
	for _, path := range paths {
		if st, err := os.Stat(path); err == nil {
			total += st.Size()
		}
	}
	return total
}

// readInput reads a file that the user has named.
func readInput(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, input.Errorf(name, "%v", errors.Unwrap(err))
	}
	return text, nil
}

// readOrStop reads a file that the user has named, - for standard input. An interrupt
// ends it at once, also while it waits for somebody to write.
func readOrStop(cmd *cobra.Command, name string) ([]byte, error) {
	var text []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if name == "-" {
			text, err = io.ReadAll(cmd.InOrStdin())
		} else {
			text, err = readInput(name)
		}
	}()
	select {
	case <-done:
		return text, err
	case <-cmd.Context().Done(): // the process ends, and the reader with it
		return nil, cmd.Context().Err()
	}
}

// readServers reads servers files that together describe one cluster.
func readServers(paths []string) ([]cluster.Server, error) {
	var inventory history.Inventory
	for _, path := range paths {
		f, err := compressed.Open(path)
		if err != nil {
			return nil, err
		}
		err = inventory.Read(path, f)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return inventory.Servers(), nil
}

// readReimages reads reimage logs, one after the other.
func readReimages(cmd *cobra.Command, paths []string, o history.ReadOptions) ([]cluster.Reimage, error) {
	var all []cluster.Reimage
	for _, path := range paths {
		f, err := compressed.Open(path)
		if err != nil {
			return nil, err
		}
		some, stats, err := history.ReadReimages(path, f, o)
		f.Close()
		if err != nil {
			return nil, err
		}
		tellSkipped(cmd, path, stats)
		all = append(all, some...)
	}
	return all, nil
}

// saveFigures writes figures into the directory of --plot and prints their paths, and
// those of other files that were written there.
func saveFigures(cmd *cobra.Command, dir string, figures []chart.Figure, others ...string) error {
	var paths []string
	for _, f := range figures {
		saved, err := f.Save(dir)
		var path *fs.PathError
		if errors.As(err, &path) {
			return input.Errorf("--plot", "%v", path)
		}
		if err != nil {
			return err
		}
		paths = append(paths, saved...)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", strings.Join(append(paths, others...), ", "))
	return nil
}

// saveTo writes the file that a flag names: whole or not at all, and only a whole
// file replaces an existing one. A pipe or a device is written directly.
func saveTo(flag, path string, write func(io.Writer) error) error {
	err := writeAny(path, write)
	var wrong *fs.PathError
	if errors.As(err, &wrong) && wrong.Op == "open" {
		return input.Errorf(flag, "%s cannot be written: %v", path, wrong.Err)
	}
	return err
}

func writeAny(path string, write func(io.Writer) error) error {
	st, err := os.Stat(path)
	if err != nil || st.Mode().IsRegular() {
		return writeFile(path, write)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return cmp.Or(write(f), f.Close())
}

// writeFile writes path whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, which is fine
	buffered := bufio.NewWriterSize(f, 1<<18)
	if err := write(buffered); err != nil {
		f.Close()
		return err
	}
	if err := buffered.Flush(); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// sameFile reports whether two paths are the same file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// quoted is a file name quoted for a shell.
func quoted(name string) string {
	plain := func(r rune) bool {
		return r > 127 || strings.ContainsRune("/._-+=@%,:", r) || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
