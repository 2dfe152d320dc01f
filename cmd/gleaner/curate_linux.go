package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/fabric"
	"gleaner/fabric/upkeep"
	"gleaner/web"
)

// newCurate holds the commands of the fabric's upkeep.
func newCurate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "curate",
		Short: "Look after the disks' data: repair, clear away, tier, balance",
		Long: `Curate shows and steers the upkeep of the disks that 'gleaner disk' makes. Upkeep scans their
maps every now and then, and does what follows: it rebuilds lost replicas, removes what
nothing refers to, packs groups that are mostly garbage, moves cold data from a full tier to
a slower one, and evens out disks. All of it goes on by itself while 'gleaner up' is up.

A scan has jobs, and a command may name some of them: ` + strings.Join(jobNames(), ", ") + `.
Thresholds are read from fabric/policy.yaml in the data directory (see docs/upkeep.md).`,
		Example: `  gleaner curate plan               # what would be done, and why; nothing is done
  gleaner curate scan               # look now, and do it
  gleaner curate status
  gleaner curate pause "benchmark until noon"
  gleaner curate resume`,
		Args: noArgs,
		RunE: help,
	}
	cmd.AddCommand(newCurateStatus(), newCurateScan(), newCuratePause(), newCurateResume(), newCuratePlan())
	for _, below := range cmd.Commands() {
		addStoreFlag(below)
	}
	return cmd
}

func jobNames() (all []string) {
	for _, j := range new(upkeep.Scan).Jobs() {
		all = append(all, j.Name)
	}
	return all
}

// curate gives an order, reads the answer into v, and prints it.
func curate(cmd *cobra.Command, what string, o web.DiskOrder, v any, show func(io.Writer) error) error {
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	if err := c.ask(what, o, v); err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, v)
	}
	return show(cmd.OutOrStdout())
}

func newCurateStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell what upkeep has done, and what is left to do",
		Long: `Status tells how far the scan is, how many tasks of each kind wait and how long they will
take, how full the tiers are, and whether the last scan of all maps found a record that
leads nowhere. Counts are since the disks were opened.`,
		Example: `  gleaner curate status
  gleaner curate status --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s fabric.Curation
			return curate(cmd, "curation", web.DiskOrder{}, &s, func(out io.Writer) error { return printCuration(out, s) })
		},
	}
}

func printCuration(out io.Writer, s fabric.Curation) error {
	t := newTable("upkeep", curationState(s))
	t.row("scans", strconv.FormatUint(s.Scan, 10))
	t.row("pace", fmt.Sprintf("%.0f%% of the time", 100*s.Pace))
	repairs := fmt.Sprintf("%s to go, %d done, %s failed", counted(s.Repairs.Waiting, "group"), s.Repairs.Done, counted(int(s.Repairs.Failed), "time"))
	if s.Repairs.NoDisk > 0 {
		repairs += fmt.Sprintf("; for %s no disk can take the replica", counted(s.Repairs.NoDisk, "group"))
	}
	t.row("repairs", repairs)
	if s.Damaged > 0 {
		t.row("damaged", fmt.Sprintf("%s, with no other replica to mend from; see 'gleaner disk check'", counted(s.Damaged, "group")))
	}
	for _, d := range s.Away {
		t.row("away", fmt.Sprintf("disk %s of server %s; after %v what it has counts as lost", d.Disk, d.Server, fabric.Grace))
	}
	for _, u := range s.Tiers {
		t.row(u.Tier+" in use", fmt.Sprintf("%.0f%%, each disk %.0f%% to %.0f%%", 100*u.Used, 100*u.Least, 100*u.Most))
	}
	t.row("findings", strconv.Itoa(len(s.Findings)))
	t.row("last check", checkSays(s.Checked))
	t.row("read again", scrubSays(s.Scrubbed))
	t.row("learned", learningSays(s.Learning))
	if err := t.print(out); err != nil {
		return err
	}
	for _, f := range s.Findings {
		fmt.Fprintln(out, f)
	}
	fmt.Fprintln(out)
	return printBacklog(out, s.Tasks)
}

func checkSays(c fabric.Checked) string {
	if c.At.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s: %s missing, %s corrupt, %s, %s", clock(c.At), counted(c.Missing, "replica"), counted(c.Corrupt, "slice"), counted(c.Orphans, "orphan"), counted(c.Errors, "error"))
}

func scrubSays(s fabric.Scrubbed) string {
	if s.Began.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s since %s, %s corrupt, all of it %s before", counted(s.Groups, "group"), clock(s.Began), counted(s.Corrupt, "slice"), counted(s.Passes, "time"))
}

// learningSays is what was decided last about moving cold data down.
func learningSays(l *fabric.Learning) string {
	switch {
	case l == nil:
		return "nothing: thresholds decide"
	case l.At.IsZero():
		return "no decision yet"
	}
	what := "wait"
	if l.Run {
		what = l.Task
	}
	return fmt.Sprintf("%s at %s (%s; waiting is worth %.2f, moving %.2f); %s in all", what, clock(l.At), l.Why, l.Wait, l.Move, counted(l.Decisions, "decision"))
}

func curationState(s fabric.Curation) string {
	switch {
	case s.Paused != "":
		return fmt.Sprintf("paused since %s: %s", clock(s.Since), s.Paused)
	case s.Scanning:
		return fmt.Sprintf("scans, %.0f%% done", 100*s.Share)
	}
	return "on"
}

func printBacklog(out io.Writer, all []fabric.Backlog) error {
	t := newTable("task", ">waiting", ">under way", ">to finish", ">done", ">refused", ">failed")
	for _, b := range all {
		left := "-"
		if b.Waiting+b.UnderWay > 0 && b.Seconds >= 0 {
			left = time.Duration(b.Seconds * float64(time.Second)).Round(time.Second).String()
		}
		t.row(b.Kind, strconv.Itoa(b.Waiting), strconv.Itoa(b.UnderWay), left, strconv.FormatInt(b.Done, 10), strconv.FormatInt(b.Refused, 10), strconv.FormatInt(b.Failed, 10))
	}
	return t.print(out)
}

func newCurateScan() *cobra.Command {
	return &cobra.Command{
		Use:   "scan [JOB]...",
		Short: "Scan now, and do what follows",
		Long: `Scan reads the maps now, for all jobs or the named ones, and returns when each task that
follows was done or refused. A task is refused that is not needed any more, or not welcome
now: a disk that has just gone away may come back, a server may be busy. The table counts what
ended meanwhile, which may be of an earlier scan.`,
		Example: `  gleaner curate scan
  gleaner curate scan replicas vdisks
  gleaner curate scan --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var r web.CurateReport
			return curate(cmd, "scan", web.DiskOrder{Jobs: args}, &r, func(out io.Writer) error {
				if err := printScan(out, r.ScanReport, "done"); err != nil {
					return err
				}
				fmt.Fprintln(out)
				return printBacklog(out, r.Outcome)
			})
		},
	}
}

func printScan(out io.Writer, r fabric.ScanReport, fate string) error {
	records, tasks := int64(0), int64(0)
	for _, n := range r.Records {
		records += n
	}
	for _, n := range r.Tasks {
		tasks += n
	}
	_, err := fmt.Fprintf(out, "%s read, %s to be %s\n", counted(int(records), "record"), counted(int(tasks), "task"), fate)
	return err
}

func newCuratePlan() *cobra.Command {
	return &cobra.Command{
		Use:   "plan [JOB]...",
		Short: "List what a scan would do, and why, and do nothing",
		Example: `  gleaner curate plan
  gleaner curate plan cold --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var p fabric.Plan
			return curate(cmd, "plan", web.DiskOrder{Jobs: args}, &p, func(out io.Writer) error { return printCuratePlan(out, p) })
		},
	}
}

func printCuratePlan(out io.Writer, p fabric.Plan) error {
	all := int64(0)
	for _, n := range p.Tasks {
		all += n
	}
	if all == 0 {
		_, err := fmt.Fprintln(out, "nothing is to be done")
		return err
	}
	t := newTable("task", "of", "why")
	for _, q := range p.Proposals {
		t.row(q.Task, q.Of, q.Why)
	}
	if err := t.print(out); err != nil {
		return err
	}
	if more := int(all) - len(p.Proposals); more > 0 {
		_, err := fmt.Fprintf(out, "… and %d more\n", more)
		return err
	}
	return nil
}

func newCuratePause() *cobra.Command {
	return &cobra.Command{
		Use:   "pause WHY",
		Short: "Stop upkeep for a while, but for the repair of what is lost",
		Long: `Pause stops scans and the tasks that follow from them, until 'gleaner curate resume', also
over restarts. What is seen to be lost meanwhile is rebuilt still.`,
		Example: `  gleaner curate pause "restoring the maps"`,
		Args:    oneArg("reason"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s fabric.Curation
			return curate(cmd, "pause", web.DiskOrder{Why: args[0]}, &s, func(out io.Writer) error { return sayCuration(out, s) })
		},
	}
}

func newCurateResume() *cobra.Command {
	return &cobra.Command{
		Use:     "resume",
		Short:   "Go on with upkeep after a pause",
		Example: `  gleaner curate resume`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s fabric.Curation
			return curate(cmd, "resume", web.DiskOrder{}, &s, func(out io.Writer) error { return sayCuration(out, s) })
		},
	}
}

func sayCuration(out io.Writer, s fabric.Curation) error {
	_, err := fmt.Fprintf(out, "upkeep: %s\n", curationState(s))
	return err
}
