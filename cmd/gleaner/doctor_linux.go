package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/harvest"
	"gleaner/local"
	"gleaner/local/proc"
	"gleaner/web"
)

func newDoctor() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine what this machine allows a gleaner to do",
		Long: `Doctor examines what this machine allows: control groups, limits, the disk of the data
directory, the port. It says what is degraded, and how to mend it. It changes nothing.
The exit code is 1 if 'gleaner up' would not start.`,
		Example: `  gleaner doctor
  gleaner doctor --data /srv/gleaner --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, listen) },
	}
	addDataFlag(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7070", "address that 'gleaner up' would listen on; none for no network")
	return cmd
}

func runDoctor(cmd *cobra.Command, listen string) error {
	dir, err := dataDir(cmd)
	if err != nil {
		return err
	}
	all, isolated := local.Examine(filepath.Join(dir, "local"))
	up := isUp(cmd, dir)
	all = append(all, examineTrust(dir))
	if listen != "none" {
		all = append(all, examinePort(listen, up))
	}
	all = append(all, examineRoom(isolated))
	if wantJSON(cmd) {
		err = printJSON(cmd, all)
	} else {
		err = printFindings(cmd.OutOrStdout(), all)
	}
	if slices.ContainsFunc(all, func(f local.Finding) bool { return f.Health == local.Broken }) {
		err = errors.Join(err, errors.New("'gleaner up' would not start here"))
	}
	return err
}

func printFindings(out io.Writer, all []local.Finding) error {
	t := newTable("part", "health", "")
	for _, f := range all {
		t.row(f.Part, string(f.Health), f.Says)
		if f.Mend != "" {
			t.row("", "", "mend: "+f.Mend)
		}
	}
	return t.print(out)
}

// isUp reports whether a gleaner is up with a data directory.
func isUp(cmd *cobra.Command, dir string) bool {
	c := &client{dir, http.Client{Transport: throughSocket(socketPath(dir))}}
	var s web.Status
	return c.ask(cmd.Context(), http.MethodGet, "status", nil, &s) == nil
}

// examineTrust finds out whether others could change the data directory. One that
// does not exist is not made.
func examineTrust(dir string) local.Finding {
	const part = "data directory"
	if _, err := os.Stat(dir); err != nil {
		return local.Finding{Part: part, Health: local.Fine, Says: dir + " will be made"}
	}
	if _, err := trustData(dir); err != nil {
		return local.Finding{Part: part, Health: local.Broken, Says: err.Error()} // which names what fixes it
	}
	return local.Finding{Part: part, Health: local.Fine, Says: dir + " can be changed by nobody else"}
}

// examinePort finds out whether an address is free.
func examinePort(address string, up bool) local.Finding {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		l.Close()
		return local.Finding{Part: "port", Health: local.Fine, Says: address + " is free"}
	case up:
		return local.Finding{Part: "port", Health: local.Fine, Says: fmt.Sprintf("a gleaner is up; %s is taken, perhaps by it", address)}
	}
	return local.Finding{Part: "port", Health: local.Broken, Says: err.Error(), Mend: "name another address, or none, with --listen"}
}

// examineRoom says what can be harvested beside an idle primary.
func examineRoom(isolated bool) local.Finding {
	memory, err := proc.ReadMemory()
	if err != nil {
		return local.Finding{Part: "room", Health: local.Broken, Says: err.Error(), Mend: "mount /proc"}
	}
	size := cluster.Resources{CPU: cluster.MilliCPU(runtime.NumCPU()) * cluster.Core, Memory: memory.Total}
	f := local.Finding{Part: "room", Health: local.Fine}
	most := harvest.ReserveFor(size, isolated).Most(size)
	if most.CPU <= 0 || most.Memory <= 0 {
		f.Health, f.Mend = local.Degraded, "--reserve-cpu and --reserve-memory of 'gleaner up' keep less free for the primary"
		f.Says = fmt.Sprintf("of %s nothing can be harvested: the reserve and the least use of a primary take everything", size)
		return f
	}
	f.Says = fmt.Sprintf("of %s at most %s can be harvested, beside an idle primary", size, most)
	return f
}
