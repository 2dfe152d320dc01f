package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/jobfile"
	"gleaner/fabric"
	"gleaner/fabric/nbd"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/web"
)

// newDisk holds the commands of the storage fabric.
func newDisk() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disk",
		Short: "Make block devices out of spare disk",
		Long: `Disk makes virtual disks out of the spare disk that machines lend, and keeps each in
several copies. Any client of NBD (qemu, fio, nbdcopy) can use one: 'gleaner disk export'
prints its address. A disk takes space only for what was written to it.

The disks belong to a data directory. Where 'gleaner up' is up with it, that process
serves them; where none is, each command opens them for as long as it takes. The first
disk that is made sets a tenth of the free space aside for all of them. With --store they
belong to the store, and every machine that shares it can use them, one at a time.`,
		Example: `  gleaner disk create db 10GiB
  qemu-img convert -n ubuntu.qcow2 "$(gleaner disk export db)"     # with 'gleaner up' in another terminal
  gleaner disk snapshot db db-monday
  gleaner disk ls`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newDiskCreate(), newDiskLs(), newDiskDf(), newDiskRetire(), newDiskStat(), newDiskRm(), newDiskSnapshot(), newDiskClone(), newDiskResize(),
		newDiskExport(), newDiskImport(), newDiskDump(), newDiskCheck(), newDiskShrink())
	for _, below := range cmd.Commands() {
		addStoreFlag(below)
	}
	for _, name := range []string{"stat", "rm", "snapshot", "clone", "resize", "export", "dump", "shrink"} {
		offer(cmd, true, disksOffered, name)
	}
	return cmd
}

// parseDiskSize reads the size of a vDisk.
func parseDiskSize(text string) (int64, error) {
	size, err := jobfile.ParseSize(text)
	if err != nil {
		return 0, input.Errorf("", "%s: %v", text, err)
	}
	return int64(size), nil
}

func newDiskCreate() *cobra.Command {
	var replicas int
	cmd := &cobra.Command{
		Use:   "create NAME SIZE",
		Short: "Make an empty disk",
		Long: `Create makes an empty disk. It takes no space until something is written to it, and then
that much on each of its replicas, which are on different servers.`,
		Example: `  gleaner disk create db 10GiB
  gleaner disk create scratch 64TiB --replicas 1`,
		Args: twoArgs("name", "size"),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := parseDiskSize(args[1])
			if err != nil {
				return err
			}
			o := web.DiskOrder{Name: args[0], Size: size, Replicas: replicas}
			if err := checkNew(cmd, o, size); err != nil {
				return err
			}
			c, err := newDiskClient(cmd)
			if err != nil {
				return err
			}
			var made fabric.Info
			if err := c.do(func() error { return c.order("create", o, &made) }); err != nil {
				return err
			}
			return tellNew(cmd, made)
		},
	}
	addReplicas(cmd, &replicas)
	return cmd
}

func addReplicas(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "replicas", 0, "copies of what is written, each on another server (default as many as there are servers, up to 3)")
}

// checkNew refuses a disk that cannot be made, before anything is opened.
func checkNew(cmd *cobra.Command, o web.DiskOrder, size int64) error {
	if !cmd.Flags().Changed("replicas") {
		o.Replicas = 1 // any will do: the front decides
	}
	if err := fabric.CheckNew(o.Name, size, o.Replicas); err != nil {
		return badArgument(web.ProblemOf(err))
	}
	return nil
}

// tellNew says which disk was made, and that replicas wait for servers, if they do.
func tellNew(cmd *cobra.Command, i fabric.Info) error {
	switch {
	case i.Servers == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "note: no data server has joined yet, so it has %s; --replicas says how many it is to have\n", counted(i.Replicas, "replica"))
	case i.Replicas > i.Servers:
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d replicas need as many servers, and there are %d; the others are made when more join\n", i.Replicas, i.Servers)
	}
	return tellDisk(cmd, i, "made")
}

// tellDisk says what was done to a disk.
func tellDisk(cmd *cobra.Command, i fabric.Info, done string) error {
	if wantJSON(cmd) {
		return printJSON(cmd, i)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s, %s\n", done, i.Name, cluster.Bytes(i.Size).Text(), counted(i.Replicas, "replica"))
	return err
}

func newDiskLs() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List disks and snapshots",
		Example: `  gleaner disk ls
  gleaner disk ls --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newDiskClient(cmd)
			if err != nil {
				return err
			}
			var all []fabric.Info
			if err := c.ask("list", web.DiskOrder{}, &all); err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, all)
			}
			return printDisks(cmd.OutOrStdout(), all)
		},
	}
}

func printDisks(out io.Writer, all []fabric.Info) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no disks; see 'gleaner disk create --help'")
		return err
	}
	t := newTable("name", ">size", ">used", ">replicas", "kind", "parent", "in use", "created")
	for _, i := range all {
		t.row(i.Name, cluster.Bytes(i.Size).Text(), cluster.Bytes(i.Used).Text(), strconv.Itoa(i.Replicas), kindOf(i), cmp.Or(i.Parent, "-"), yesNo(i.Exported), clock(i.Created))
	}
	return t.print(out)
}

func kindOf(i fabric.Info) string {
	if i.Snapshot {
		return "snapshot"
	}
	return "disk"
}

func newDiskDf() *cobra.Command {
	return &cobra.Command{
		Use:   "df",
		Short: "List the disks that servers lend, and what is free on them",
		Example: `  gleaner disk df
  gleaner disk df --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newDiskClient(cmd)
			if err != nil {
				return err
			}
			var all []fabric.Lent
			if err := c.ask("lent", web.DiskOrder{}, &all); err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, all)
			}
			return printLent(cmd.OutOrStdout(), all)
		},
	}
}

func printLent(out io.Writer, all []fabric.Lent) error {
	t := newTable("server", "disk", "tier", "state", ">quota", ">free")
	var quota, free cluster.Bytes
	for _, l := range all {
		t.row(l.Server, l.Disk, l.Tier, l.State, cluster.Bytes(l.Quota).Text(), cluster.Bytes(l.Free).Text())
		quota, free = quota+cluster.Bytes(l.Quota), free+cluster.Bytes(l.Free)
	}
	t.row("all", counted(len(all), "disk"), "", "", quota.Text(), free.Text())
	if err := t.print(out); err != nil {
		return err
	}
	for _, l := range all {
		if l.Left > 0 {
			fmt.Fprintln(out, leaves(l))
		}
	}
	return nil
}

// leaves says what is left on a disk that is being emptied.
func leaves(l fabric.Lent) string {
	text := fmt.Sprintf("disk %s of server %s still has %s", l.Disk, l.Server, counted(l.Left, "replica"))
	if l.Stuck > 0 {
		text += fmt.Sprintf("; for %d of them no other disk has room on a server that has none: lend more with 'gleaner node'", l.Stuck)
	}
	return text
}

func newDiskStat() *cobra.Command {
	return &cobra.Command{
		Use:   "stat NAME",
		Short: "Tell all about a disk",
		Long: `Stat tells how much of a disk was written, and in which state the extent groups are that
hold it: where a group has fewer good replicas than wanted, it is being repaired. It tells
how much of it is on which tier, and to ten seconds when it was last read and written.`,
		Example: `  gleaner disk stat db
  gleaner disk stat db --json`,
		Args: oneArg("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newDiskClient(cmd)
			if err != nil {
				return err
			}
			var s fabric.Stat
			if err := c.ask("stat", web.DiskOrder{Name: args[0]}, &s); err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, s)
			}
			return printStat(cmd.OutOrStdout(), s)
		},
	}
}

func printStat(out io.Writer, s fabric.Stat) error {
	t := newTable(kindOf(s.Info), s.Name)
	t.row("size", cluster.Bytes(s.Size).Text())
	t.row("used", cluster.Bytes(s.Used).Text()+" on each replica")
	t.row("replicas wanted", strconv.Itoa(s.Replicas))
	t.row("read through", cmp.Or(strings.Join(s.Chain, ", "), "-"))
	t.row("in use", yesNo(s.Exported))
	t.row("created", clock(s.Created))
	t.row("blocks", strconv.Itoa(s.Blocks))
	t.row("extent groups", strconv.Itoa(s.Groups))
	for _, state := range sorted(s.States) {
		t.row("  "+state, strconv.Itoa(s.States[state]))
	}
	for _, have := range sorted(s.Have) {
		t.row("  with "+counted(have, "good replica"), strconv.Itoa(s.Have[have]))
	}
	for _, tier := range sorted(s.Tiers) {
		t.row("replicas on "+tier, strconv.Itoa(s.Tiers[tier]))
		t.row("bytes on "+tier, cluster.Bytes(s.Bytes[tier]).Text())
	}
	t.row("last read", used(s.LastRead))
	t.row("last written", used(s.LastWritten))
	if p := s.Placement; p.Groups > 0 {
		t.row("groups well placed", fmt.Sprintf("%d of %d", p.Well, p.Groups))
		for _, wish := range p.Wishes {
			t.row("  in different "+wish.Different, strconv.Itoa(wish.Kept))
			for _, why := range sorted(wish.Short) {
				t.row("    not", fmt.Sprintf("%d: %s", wish.Short[why], why))
			}
		}
	}
	return t.print(out)
}

// used says when something was last used, if ever.
func used(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return clock(t)
}

func sorted[K cmp.Ordered](m map[K]int) []K { return slices.Sorted(maps.Keys(m)) }

func newDiskRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a disk or a snapshot",
		Long: `Rm removes a disk or a snapshot, unless it is in use. What other disks are read through is
kept for them.`,
		Example: `  gleaner disk rm scratch`,
		Args:    oneArg("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newDiskClient(cmd)
			if err != nil {
				return err
			}
			var gone web.DiskName
			if err := c.ask("remove", web.DiskOrder{Name: args[0]}, &gone); err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, gone)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", gone.Name)
			return err
		},
	}
}

// changeDisk gives an order and tells how the disk is now.
func changeDisk(cmd *cobra.Command, what string, o web.DiskOrder, done string) error {
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	var now fabric.Info
	if err := c.ask(what, o, &now); err != nil {
		return err
	}
	return tellDisk(cmd, now, done)
}

func newDiskSnapshot() *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot NAME SNAPSHOT",
		Short: "Keep a disk as it is now",
		Long: `Snapshot keeps a disk as it is now, under a name of its own, also while it is in use. It
takes no space until the disk is written on. A snapshot cannot be written; it can be read
as a disk can, dumped and cloned.`,
		Example: `  gleaner disk snapshot db db-monday`,
		Args:    twoArgs("name", "name for the snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeDisk(cmd, "snapshot", web.DiskOrder{Name: args[0], As: args[1]}, "kept "+args[0]+" as")
		},
	}
}

func newDiskClone() *cobra.Command {
	return &cobra.Command{
		Use:     "clone SNAPSHOT NAME",
		Short:   "Make a disk that begins as a snapshot is",
		Long:    `Clone makes a disk that begins as a snapshot is. It takes space only for what is written to it.`,
		Example: `  gleaner disk clone db-monday db-test`,
		Args:    twoArgs("snapshot", "name for the disk"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeDisk(cmd, "clone", web.DiskOrder{Name: args[0], As: args[1]}, "made")
		},
	}
}

func newDiskResize() *cobra.Command {
	return &cobra.Command{
		Use:   "resize NAME SIZE",
		Short: "Change the size of a disk",
		Long: `Resize changes the size of a disk. What is beyond the new size is lost; what is added
reads as zeros. A client that has the disk open sees the new size when it connects again.`,
		Example: `  gleaner disk resize db 20GiB`,
		Args:    twoArgs("name", "size"),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := parseDiskSize(args[1])
			if err != nil {
				return err
			}
			return changeDisk(cmd, "resize", web.DiskOrder{Name: args[0], Size: size}, "resized")
		},
	}
}

func newDiskExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export NAME",
		Short: "Print the address of a disk for NBD clients",
		Long: `Export prints the address (a URI) by which NBD clients reach a disk or a snapshot, and
nothing else. Where a process serves the disks already, as 'gleaner up' does, that is all.
Where none does, export serves them itself until Ctrl-C.`,
		Example: `  gleaner disk export db                                  # nbd+unix:///db?socket=…
  qemu-img info "$(gleaner disk export db)"               # with 'gleaner up' in another terminal`,
		Args: oneArg("name"),
		RunE: func(cmd *cobra.Command, args []string) error { return runDiskExport(cmd, args[0]) },
	}
}

func runDiskExport(cmd *cobra.Command, name string) error {
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	if err := c.expectDisks(); err != nil {
		return err
	}
	ask := func() error {
		var x web.DiskExport
		if err := c.order("export", web.DiskOrder{Name: name}, &x); err != nil {
			return err
		}
		return tellExport(cmd, x)
	}
	return c.either(ask, func(store kv.Store) error { return c.serve(store, name) })
}

func tellExport(cmd *cobra.Command, x web.DiskExport) error {
	if wantJSON(cmd) {
		return printJSON(cmd, x)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), x.URI)
	return err
}

// serve serves all disks until Ctrl-C. The one that was asked for counts as in use meanwhile.
func (c *diskClient) serve(store kv.Store, name string) (err error) {
	ctx := c.cmd.Context()
	h, err := c.host(store, true, slog.New(slog.NewTextHandler(c.cmd.ErrOrStderr(), nil)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	device, err := h.front.Exports().Open(ctx, name)
	if errors.Is(err, nbd.ErrUnknown) {
		return input.Errorf("", "%s: there is no such vDisk", name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	if err := tellExport(c.cmd, web.DiskExport{Name: name, URI: h.uri(name)}); err != nil {
		return err
	}
	return h.run(ctx)
}
