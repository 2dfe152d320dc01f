package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/input"
	"gleaner/web"
)

func newDiskImport() *cobra.Command {
	var replicas int
	cmd := &cobra.Command{
		Use:   "import FILE NAME",
		Short: "Make a disk of a file",
		Long: `Import makes a disk with what is in a file, as large as the file (rounded up to 512 bytes).
Zeros take no space. If it fails there is no disk.`,
		Example: `  gleaner disk import ubuntu.raw web1`,
		Args:    twoArgs("file", "name"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runDiskImport(cmd, args[0], args[1], replicas) },
	}
	addReplicas(cmd, &replicas)
	return cmd
}

func runDiskImport(cmd *cobra.Command, file, name string, replicas int) error {
	f, size, err := openSized(file)
	if err != nil {
		return err
	}
	defer f.Close()
	o := web.DiskOrder{Name: name, Replicas: replicas}
	if err := checkNew(cmd, o, (size+511)/512*512); err != nil {
		return err
	}
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	var made fabric.Info
	err = c.do(func() error {
		bar := newProgress(cmd, "importing", size)
		defer bar.finish()
		response, err := c.send("import", o, watched{io.NewSectionReader(f, 0, size), bar}, size)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		return json.NewDecoder(response.Body).Decode(&made)
	})
	if err != nil {
		return err
	}
	return tellNew(cmd, made)
}

// openSized opens a file or a block device whose size is known.
func openSized(file string) (*os.File, int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, input.Errorf(file, "%v", reason(err))
	}
	if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDevice {
		return nil, 0, input.Errorf(file, "must be a file or a block device")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, input.Errorf(file, "%v", reason(err))
	}
	size, err := f.Seek(0, io.SeekEnd)
	return f, size, err
}

// watched shows how far a reader has come.
type watched struct {
	io.Reader
	bar *progress
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.bar.add(int64(n))
	return n, err
}

func newDiskDump() *cobra.Command {
	return &cobra.Command{
		Use:   "dump NAME FILE",
		Short: "Write a disk or a snapshot to a file",
		Long: `Dump writes a disk or a snapshot to a file, which has holes where nothing was written: whole or not at
all. A pipe or a device is written to, and - is the standard output. Dump a snapshot if the disk is
in use, or the file may have some writes and lack others that came before.`,
		Example: `  gleaner disk dump db-monday db.raw
  gleaner disk dump db-monday - | zstd > db.raw.zst`,
		Args: twoArgs("name", "file"),
		RunE: func(cmd *cobra.Command, args []string) error { return runDiskDump(cmd, args[0], args[1]) },
	}
}

func runDiskDump(cmd *cobra.Command, name, file string) error {
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	if err := c.expectDisks(); err != nil {
		return err
	}
	var size int64
	err = c.do(func() error {
		response, err := c.send("dump", web.DiskOrder{Name: name}, nil, 0)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		total, _ := strconv.ParseInt(response.Header.Get(web.DiskSizeHeader), 10, 64)
		bar := newProgress(cmd, "dumping", total)
		defer bar.finish()
		size, err = writeDump(cmd, file, response.Body, bar)
		return err
	})
	if err != nil || file == "-" {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, dumped{name, file, size})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s to %s: %s\n", name, file, cluster.Bytes(size).Text())
	return err
}

// dumped is the result of 'disk dump'.
type dumped struct {
	Name string `json:"name"`
	File string `json:"file"`
	Size int64  `json:"size"`
}

// writeDump writes pieces of a vDisk to a file, with holes if it is a plain one.
func writeDump(cmd *cobra.Command, file string, pieces io.Reader, bar *progress) (int64, error) {
	if file == "-" {
		return stream(cmd.OutOrStdout(), pieces, bar)
	}
	st, err := os.Stat(file)
	if err != nil || st.Mode().IsRegular() {
		return writeSparse(file, pieces, bar)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return 0, input.Errorf(file, "%v", reason(err))
	}
	size, err := stream(f, pieces, bar)
	return size, errors.Join(err, f.Close())
}

// stream writes pieces one after the other, with zeros between them.
func stream(w io.Writer, pieces io.Reader, bar *progress) (int64, error) {
	out := bufio.NewWriterSize(w, 1<<20)
	at := int64(0)
	skipTo := func(offset int64) error {
		_, err := io.CopyN(out, zeros{}, offset-at)
		bar.add(offset - at)
		at = offset
		return err
	}
	size, err := web.ReadPieces(pieces, func(p []byte, offset int64) error {
		if err := skipTo(offset); err != nil {
			return err
		}
		n, err := out.Write(p)
		bar.add(int64(n))
		at += int64(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, errors.Join(skipTo(size), out.Flush())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// writeSparse writes a file with holes, whole or not at all.
func writeSparse(file string, pieces io.Reader, bar *progress) (int64, error) {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return 0, input.Errorf(file, "cannot be written: %v", reason(err))
	}
	defer os.Remove(f.Name()) // fails once it is renamed, which is fine
	size, err := web.ReadPieces(pieces, func(p []byte, offset int64) error {
		_, err := f.WriteAt(p, offset)
		bar.add(offset + int64(len(p)) - bar.done)
		return err
	})
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Chmod(0o600) // it is a disk, for its owner
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(f.Name(), file)
}

func newDiskCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Read everything and say what is wrong",
		Long: `Check follows every record of every disk down to its replicas and reads those, every checksum
of them. It changes nothing. The exit code is 1 if a replica is missing, if bytes are not those
that were written, or if records lead nowhere. Orphans (what nothing refers to any more) are no harm: they
are cleared away in time.`,
		Example: `  gleaner disk check
  gleaner disk check --json`,
		Args: noArgs,
		RunE: runDiskCheck,
	}
}

func runDiskCheck(cmd *cobra.Command, _ []string) error {
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	if err := c.expectDisks(); err != nil {
		return err
	}
	bar := newProgress(cmd, "checking", 0)
	var report *fabric.Report
	err = c.do(func() error {
		report, err = follow[fabric.Report](c, "check", web.DiskOrder{}, bar)
		return err
	})
	bar.finish()
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		err = printJSON(cmd, report)
	} else {
		err = printReport(cmd.OutOrStdout(), report)
	}
	if bad := report.Missing + report.Corrupt + len(report.Errors); err == nil && bad > 0 {
		return fmt.Errorf("%s missing, %s corrupt, %s", counted(report.Missing, "replica"), counted(report.Corrupt, "slice"), counted(len(report.Errors), "error"))
	}
	return err
}

// follow sends an order that takes long, shows how far it has come, and gives what came of it.
func follow[R any](c *diskClient, what string, o web.DiskOrder, bar *progress) (*R, error) {
	response, err := c.send(what, o, nil, 0)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	for lines := json.NewDecoder(response.Body); ; {
		var step web.Step[R]
		if err := lines.Decode(&step); err != nil {
			return nil, fmt.Errorf("read the answer to disk %s: %w", what, err)
		}
		bar.set(step.Done, step.Of)
		switch {
		case step.Report != nil:
			return step.Report, nil
		case step.Problem != nil:
			return nil, errors.New(step.Problem.Error)
		}
	}
}

func printReport(out io.Writer, r *fabric.Report) error {
	t := newTable("looked at", ">count")
	t.row("blocks", strconv.Itoa(r.Blocks))
	t.row("extent groups", strconv.Itoa(r.Groups))
	t.row("good replicas", strconv.Itoa(r.Replicas))
	t.row("missing replicas", strconv.Itoa(r.Missing))
	t.row("corrupt slices", strconv.Itoa(r.Corrupt))
	t.row("orphans", strconv.Itoa(r.Orphans))
	t.row("errors", strconv.Itoa(len(r.Errors)))
	if err := t.print(out); err != nil {
		return err
	}
	const most = 20
	wrong := slices.Concat(r.Errors, r.Damaged)
	for i, e := range wrong {
		if i == most {
			_, err := fmt.Fprintf(out, "… and %d more, see --json\n", len(wrong)-most)
			return err
		}
		fmt.Fprintln(out, e)
	}
	return nil
}
