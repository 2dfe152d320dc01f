package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/control/jobfile"
	"gleaner/fabric/registry"
	"gleaner/input"
)

// A labFabric is a front and its data servers, all on this machine.
type labFabric struct {
	cmd         *cobra.Command
	data        string // as the user calls it
	servers     int
	serversFile string
	quota       string
	disks       []string
	restart     bool
	sync        syncFlag

	dir   string    // the data directory
	lends []labDisk // each server
	log   *slog.Logger
	where *registry.Registry
	nodes []*labNode
	ended chan *labNode
}

// A labDisk is a disk as each server has one, in a folder of its own.
type labDisk struct{ tier, folder, quota string }

// A labNode is a data server as a process.
type labNode struct {
	cluster.Server
	disk    string // the first, if it has several
	process *exec.Cmd
	running bool
}

func newLabFabric() *cobra.Command {
	var f labFabric
	cmd := &cobra.Command{
		Use:   "fabric",
		Short: "Start a storage fabric: data servers as processes, and their front",
		Long: `Fabric starts data servers ('gleaner node') as processes of this machine, each with a disk of its
own below the data directory, or one of each tier that --disk names, and serves the disks that
are made on them, as 'gleaner up' does.
It writes fabric.json there when all are reached: who is which process. It goes on until
Ctrl-C, and started again with the same directory it goes on with what is there.

A data server that is killed stays away, so that one can see what happens, unless
--restart is given. One that is stopped (kill -STOP) is left alone.`,
		Example: `  gleaner lab fabric --servers 6 --data lab
  gleaner lab fabric --servers 3 --disk ssd:1GiB --disk hdd:8GiB --data lab
  gleaner disk create db 10GiB --data lab                  # from another terminal
  kill -9 $(jq '.servers[0].pid' lab/fabric.json)          # and see 'gleaner disk stat db'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.cmd = cmd
			return f.run()
		},
	}
	cmd.Flags().StringVar(&f.data, "data", "", "data directory, made if need be")
	cmd.Flags().IntVar(&f.servers, "servers", 6, "how many data servers")
	cmd.Flags().StringVar(&f.serversFile, "servers-file", "", "servers file (server,environment,function,…) whose first servers they are (default s1, s2, …)")
	cmd.Flags().StringVar(&f.quota, "quota", "4GiB", "what each of them lends")
	cmd.Flags().StringArrayVar(&f.disks, "disk", nil, "a disk that each of them lends, as TIER:QUOTA, in place of --quota; once for each tier")
	addSyncFlag(cmd, &f.sync)
	cmd.Flags().BoolVar(&f.restart, "restart", false, "start a data server again that has ended")
	return cmd
}

func (f *labFabric) run() (err error) {
	if err := f.check(); err != nil {
		return err
	}
	f.log = slog.New(slog.NewTextHandler(f.cmd.ErrOrStderr(), nil))
	store, err := openData(f.cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if f.where, err = registryFor(f.cmd.Context(), f.dir, store, false); err != nil {
		return err
	}
	runtime.LockOSThread() // data servers end with the thread that started them
	defer f.stop()
	for _, n := range f.nodes {
		if err := f.start(n); err != nil {
			return err
		}
	}
	if err := f.await("started", f.announced); err != nil {
		return err
	}
	h, err := openFront(f.cmd.Context(), hostOptions{dir: f.dir, store: store, place: f.dir, stays: true, always: f.sync, log: f.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := f.await("reached", func() bool { return h.front.Servers() >= len(f.nodes) }); err != nil {
		return err
	}
	if err := f.write(); err != nil {
		return err
	}
	fmt.Fprintf(f.cmd.OutOrStdout(), "%s answers; Ctrl-C stops\n", h.uri(""))
	return f.serve(h)
}

// check reads the flags, and makes the data directory if they are right.
func (f *labFabric) check() (err error) {
	if f.data == "" {
		return input.Errorf("--data", "is needed: a directory for the data servers and what they hold")
	}
	if f.lends, err = f.lent(); err != nil {
		return err
	}
	if f.servers < 1 || f.servers > 100 {
		return input.Errorf("--servers", "%d is not a number from 1 to 100", f.servers)
	}
	servers, err := f.chosen()
	if err != nil {
		return err
	}
	if f.dir, err = trustData(f.data); err != nil {
		return err
	}
	if err := f.all(servers); err != nil {
		return err
	}
	f.ended = make(chan *labNode, len(servers))
	for _, s := range servers {
		f.nodes = append(f.nodes, &labNode{Server: s, disk: filepath.Join(f.dir, "servers", string(s.ID), f.lends[0].folder)})
	}
	return nil
}

// all sees that the flags name all servers and disks that are in the data directory: without one of them, what it holds is missing.
func (f *labFabric) all(servers []cluster.Server) error {
	disks, err := filepath.Glob(filepath.Join(f.dir, "servers", "*", "*", "identity"))
	if err != nil {
		return err
	}
	for _, identity := range disks {
		folder := filepath.Dir(identity)
		server := filepath.Base(filepath.Dir(folder))
		switch {
		case !slices.ContainsFunc(servers, func(s cluster.Server) bool { return string(s.ID) == server }):
			return input.Errorf("--servers", "%s has a server %s, which is to be among them", f.data, server)
		case !slices.ContainsFunc(f.lends, func(d labDisk) bool { return d.folder == filepath.Base(folder) }):
			return input.Errorf("--disk", "server %s has a disk in %s, which is to be named: start it with the flags of the first time", server, folder)
		}
	}
	return nil
}

// lent is what each server lends: a disk, or one of each tier that is named.
func (f *labFabric) lent() (all []labDisk, err error) {
	if len(f.disks) == 0 {
		if _, err := jobfile.ParseSize(f.quota); err != nil {
			return nil, input.Errorf("--quota", "%q: %v", f.quota, err)
		}
		return []labDisk{{"ssd", "disk", f.quota}}, nil
	}
	if f.cmd.Flags().Changed("quota") {
		return nil, input.Errorf("--quota", "is not for use with --disk, which has its own")
	}
	for _, text := range f.disks {
		tier, quota, ok := strings.Cut(text, ":")
		if !ok {
			return nil, input.Errorf("--disk", "%s: must be TIER:QUOTA, as hdd:4GiB", text)
		}
		d := labDisk{tier, tier, quota}
		if _, err := parseLent(d.flag("")); err != nil {
			return nil, input.Errorf("--disk", "%s: %v", text, err)
		}
		if slices.ContainsFunc(all, func(other labDisk) bool { return other.tier == tier }) {
			return nil, input.Errorf("--disk", "%s: the tier %s is named twice", text, tier)
		}
		all = append(all, d)
	}
	return all, nil
}

// flag names the disk as 'gleaner node' wants it.
func (d labDisk) flag(home string) string {
	return d.tier + ":" + filepath.Join(home, d.folder) + ":" + d.quota
}

// chosen are the servers of the file, or so many of no tenant.
func (f *labFabric) chosen() ([]cluster.Server, error) {
	if f.serversFile == "" {
		servers := make([]cluster.Server, f.servers)
		for i := range servers {
			servers[i].ID = cluster.ServerID(fmt.Sprintf("s%d", i+1))
		}
		return servers, nil
	}
	servers, err := readServers([]string{f.serversFile})
	if err != nil {
		return nil, err
	}
	if len(servers) < f.servers && f.cmd.Flags().Changed("servers") {
		return nil, input.Errorf("--servers", "%d, but %s has %d", f.servers, f.serversFile, len(servers))
	}
	servers = servers[:min(len(servers), f.servers)]
	for _, s := range servers {
		if err := registry.CheckName(string(s.ID)); err != nil {
			return nil, input.Errorf("--servers-file", "%v", err)
		}
	}
	return servers, nil
}

// start starts a data server. What it says goes to a file beside its disk.
func (f *labFabric) start(n *labNode) error {
	home := filepath.Dir(n.disk)
	args := []string{"node", "--data", f.dir, "--server", string(n.ID)}
	for _, d := range f.lends {
		if err := os.MkdirAll(filepath.Join(home, d.folder), 0o700); err != nil {
			return err
		}
		args = append(args, "--disk", d.flag(home))
	}
	says, err := os.OpenFile(filepath.Join(home, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer says.Close()
	for flag, value := range map[string]string{"--environment": n.Environment, "--function": n.Function, "--rack": n.Rack} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if len(f.where.Socket(string(n.ID))) > mostSocket {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	if n.process, err = ourselves(args...); err != nil {
		return err
	}
	n.process.Stdout, n.process.Stderr = says, says
	// Ctrl-C is for the front: it closes what is open before the data servers end.
	n.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := n.process.Start(); err != nil {
		return fmt.Errorf("start a data server: %w", err)
	}
	n.running = true
	go func() {
		_ = n.process.Wait()
		f.ended <- n
	}()
	return nil
}

// toStart is how long data servers may take to come up.
const toStart = time.Minute

// await waits until all data servers are started, or whatever is asked for. One that ends
// meanwhile has been refused something.
func (f *labFabric) await(what string, all func() bool) error {
	for deadline := time.Now().Add(toStart); !all(); {
		select {
		case <-f.cmd.Context().Done():
			return f.cmd.Context().Err()
		case n := <-f.ended:
			n.running = false
			return f.refusal(n)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not all data servers were %s within %v; see %s", what, toStart, filepath.Join(f.dir, "servers"))
		}
	}
	return nil
}

// refusal says why a data server did not start: the last line that it wrote.
func (f *labFabric) refusal(n *labNode) error {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(n.disk), "log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	why := fmt.Sprintf("data server %s: %s", n.ID, strings.TrimPrefix(lines[len(lines)-1], "gleaner: "))
	if n.process.ProcessState.ExitCode() == exitBadInput {
		return input.Errorf("", "%s", why)
	}
	return errors.New(why)
}

// entries are those of the registry, by name.
func (f *labFabric) entries() map[string]registry.Server {
	all, _ := f.where.Servers(f.cmd.Context()) // one that is being written is read again
	byName := map[string]registry.Server{}
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

// announced says whether all data servers have written where they are.
func (f *labFabric) announced() bool {
	known := f.entries()
	for _, n := range f.nodes {
		if known[string(n.ID)].PID != n.process.Process.Pid {
			return false
		}
	}
	return true
}

// A fabricFile is what fabric.json has.
type fabricFile struct {
	Servers []fabricServer `json:"servers"`
	Data    string         `json:"data"`
}

type fabricServer struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Address string `json:"address"`
	Disk    string `json:"disk"`
}

// write writes down who is which process.
func (f *labFabric) write() error {
	known := f.entries()
	file := fabricFile{Data: f.dir}
	for _, n := range f.nodes {
		file.Servers = append(file.Servers, fabricServer{string(n.ID), n.process.Process.Pid, known[string(n.ID)].Address, n.disk})
	}
	return writeFile(filepath.Join(f.dir, "fabric.json"), func(w io.Writer) error {
		lines := json.NewEncoder(w)
		lines.SetIndent("", "  ")
		return lines.Encode(file)
	})
}

// serve serves until Ctrl-C.
func (f *labFabric) serve(h *frontHost) error {
	served := make(chan error, 1)
	go func() { served <- h.run(f.cmd.Context()) }()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	written := true // fabric.json says who runs
	for {
		select {
		case err := <-served:
			return err
		case n := <-f.ended:
			n.running = false
			f.log.Warn("data server has ended", "server", string(n.ID), "state", n.process.ProcessState.String())
		case <-look.C:
			if f.restart && f.startAgain() {
				written = false
			}
			if !written && f.announced() {
				written = true
				if err := f.write(); err != nil {
					f.log.Warn("fabric.json was not written", "error", err)
				}
			}
		}
	}
}

// startAgain starts the data servers that have ended.
func (f *labFabric) startAgain() (some bool) {
	for _, n := range f.nodes {
		if n.running {
			continue
		}
		if err := f.start(n); err != nil {
			f.log.Warn("data server was not started again", "server", string(n.ID), "error", err)
		}
		some = true
	}
	return some
}

// stop ends the data servers and waits for them.
func (f *labFabric) stop() {
	running := 0
	for _, n := range f.nodes {
		if n.running {
			running++
			_ = n.process.Process.Signal(syscall.SIGINT)
			_ = n.process.Process.Signal(syscall.SIGCONT) // one that was stopped ends too
		}
	}
	for range running {
		<-f.ended
	}
}
