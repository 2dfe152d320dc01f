package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
)

// newTraceCarry keeps connections for a replay; users do not call it.
func newTraceCarry() *cobra.Command {
	return &cobra.Command{
		Use:    "carry TARGET...",
		Short:  "Keep connections for a replay",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var executors []replay.Executor
			for _, address := range args {
				e, err := openTarget(cmd.Context(), address)
				if err != nil {
					return err
				}
				executors = append(executors, e)
			}
			// The parent ends its input to stop it: Ctrl-C reaches both.
			return carrier.Serve(context.WithoutCancel(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout(), executors)
		},
	}
}

// openTarget makes the executor of one address, which may name masters that stand by for the first.
func openTarget(ctx context.Context, address string) (replay.Executor, error) {
	at, err := url.Parse(address)
	var speaks protocol
	if err == nil {
		speaks = protocols()[at.Scheme]
	}
	if speaks.open == nil || at.Host == "" {
		return nil, input.Errorf("--target", "%q is not PROTOCOL://HOST:PORT with one of %s", address, protocolNames())
	}
	if err := checkStandbys(at); err != nil {
		return nil, err
	}
	for key := range at.Query() {
		if keys := append([]string{"standby"}, speaks.keys...); !slices.Contains(keys, key) {
			return nil, input.Errorf("--target", "%s:// has no %q in its query, but %s", at.Scheme, key, strings.Join(keys, ", "))
		}
	}
	var masters []replay.Executor
	var away error // that cannot be reached: after a failover the first cannot
	for _, at := range mastersOf(at) {
		for host := range strings.SplitSeq(at.Host, ",") {
			if err := hasPort(host, at.Scheme); err != nil {
				return nil, input.Errorf("--target", "%s: %v", at.Redacted(), err)
			}
		}
		e, err := speaks.open(ctx, at)
		if input.Is(err) {
			return nil, err
		}
		if err != nil {
			if err = fmt.Errorf("%s: %w", at.Redacted(), err); away != nil {
				err = fmt.Errorf("%w; %w", away, err)
			}
			away = err
			continue
		}
		masters = append(masters, e)
	}
	switch len(masters) {
	case 0:
		return nil, away
	case 1:
		return masters[0], nil
	}
	return replay.WithStandbys(masters...), nil
}

// checkStandbys requires that the masters of a target differ, each with a host and a port.
func checkStandbys(at *url.URL) error {
	known := []string{at.Host}
	for _, standby := range at.Query()["standby"] {
		host, _, err := net.SplitHostPort(standby)
		if err == nil {
			err = hasPort(standby, at.Scheme)
		}
		switch {
		case err != nil || host == "" || strings.ContainsAny(standby, "@,/ "):
			return input.Errorf("--target", "standby=%s is not HOST:PORT", standby)
		case slices.Contains(known, standby):
			return input.Errorf("--target", "standby=%s: it is named twice", standby)
		}
		known = append(known, standby)
	}
	return nil
}

// mastersOf are the addresses of a target: its own, and that of each standby=HOST:PORT.
func mastersOf(at *url.URL) []*url.URL {
	query := at.Query()
	hosts := append([]string{at.Host}, query["standby"]...)
	query.Del("standby")
	var all []*url.URL
	for _, host := range hosts {
		one := *at
		one.Host, one.RawQuery = host, query.Encode()
		all = append(all, &one)
	}
	return all
}

// hasPort requires a valid port. Those of HTTP may be left out.
func hasPort(host, scheme string) error {
	_, port, err := net.SplitHostPort(host)
	if err != nil || port == "" {
		if strings.HasPrefix(scheme, "http") {
			return nil
		}
		return errors.New("which port?")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is not a port", port)
	}
	return nil
}

// carriers are processes that keep connections.
type carriers struct {
	all   []*carrier.Carrier
	ends  []io.Closer
	procs []*exec.Cmd
}

// startCarriers starts n processes of this program that keep connections to the
// addresses.
func startCarriers(n int, addresses []string) (*carriers, error) {
	out := &carriers{}
	for range n {
		cmd, err := ourselves(append([]string{"trace", "carry"}, addresses...)...)
		if err != nil {
			return nil, err
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		from, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("start a process for connections: %w", err), out.stop())
		}
		out.all, out.ends, out.procs = append(out.all, carrier.New(in, from, 0)), append(out.ends, in), append(out.procs, cmd)
	}
	return out, nil
}

// ourselves is a command that runs this program again.
func ourselves(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = os.Args[0]
	return cmd, nil
}

// resident is the memory that all of them hold.
func (c *carriers) resident() (bytes int64) {
	for _, p := range c.procs {
		bytes += residentBytes(p.Process.Pid)
	}
	return bytes
}

func (c *carriers) stop() error {
	var errs []error
	for _, in := range c.ends {
		in.Close()
	}
	for _, p := range c.procs {
		errs = append(errs, p.Wait())
	}
	return errors.Join(errs...)
}
