package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"gleaner/input"
	"gleaner/trace/replay"
	"gleaner/trace/replay/carrier"
	"gleaner/trace/replay/crew"
)

// anyLoopback is where machines join if nothing else was said.
const anyLoopback = "127.0.0.1:0"

// mostMachines is how many may play.
const mostMachines = 1000

// gather waits for the machines that are to play, if any are. over tells them that it was the last run, or
// why there is no other.
func (st *stage) gather(cmd *cobra.Command) (over func(why error), err error) {
	f := st.flags
	if f.machines == 0 {
		return func(error) {}, nil
	}
	token, how, err := hostToken(f.tokenFile)
	if err != nil {
		return nil, err
	}
	host, err := crew.Listen(f.listen, token, f.machines)
	if err != nil {
		return nil, input.Errorf("--listen", "%v", err)
	}
	over = func(why error) {
		_ = host.Close() // nothing was promised to who has not joined
		for _, m := range st.machines {
			switch {
			case why == nil:
				m.Over("")
			case cmd.Context().Err() != nil:
				m.Over("it was stopped")
			default:
				m.Over("it failed")
			}
		}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s to join; on each run: %s\n", counted(f.machines, "machine"), fmt.Sprintf(how, reached(host.Address())))
	for len(st.machines) < f.machines {
		m, err := host.Join(cmd.Context())
		if err != nil {
			over(err)
			return nil, err
		}
		st.machines = slices.DeleteFunc(append(st.machines, m), func(m *crew.Machine) bool {
			gone := m.HasGone()
			if gone {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s (%s) has gone; another may join\n", m.Name, m.Address)
			}
			return gone
		})
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d: %s (%s)\n", len(st.machines), f.machines, m.Name, m.Address)
	}
	host.Begin()
	return over, nil
}

// reached is an address by which other machines reach a listener.
func reached(at *net.TCPAddr) string {
	if name, err := os.Hostname(); at.IP.IsUnspecified() && err == nil {
		return net.JoinHostPort(name, fmt.Sprint(at.Port))
	}
	return at.String()
}

// hostToken reads the token of a file, or makes one, and says how a machine joins with it.
func hostToken(name string) (token crew.Token, how string, err error) {
	token = crew.NewToken()
	if name == "" {
		return token, tokenVariable + "=" + token.String() + " gleaner trace player --join %s", nil
	}
	how = "gleaner trace player --join %s --token-file " + strings.ReplaceAll(quoted(name), "%", "%%")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		token, err = fileToken(name)
		return token, how, err
	}
	if err != nil {
		return token, how, input.Errorf("--token-file", "%v", err)
	}
	_, err = fmt.Fprintln(f, token)
	return token, how, errors.Join(err, f.Close())
}

// fileToken reads the token of a file.
func fileToken(name string) (crew.Token, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return crew.Token{}, input.Errorf("--token-file", "%v", err)
	}
	token, err := crew.ParseToken(strings.TrimSpace(string(text)))
	if err != nil {
		return token, input.Errorf(name, "%v", err)
	}
	return token, nil
}

// playElsewhere plays on the machines that have joined: a part of the nodes on each if these are
// independent of each other, and else the connections of the players that are here.
func (st *stage) playElsewhere(ctx context.Context, o replay.Options) (*replay.Result, error) {
	if st.apart(o) {
		return st.playPartsElsewhere(ctx, o)
	}
	return st.playCarriedElsewhere(ctx, o)
}

func (st *stage) playPartsElsewhere(ctx context.Context, o replay.Options) (*replay.Result, error) {
	orders, err := replay.Orders(o, st.targets(), len(st.machines))
	if err != nil {
		return nil, err
	}
	parts := make([]*replay.Result, len(orders))
	all, ctx := errgroup.WithContext(ctx)
	for i, m := range st.machines {
		all.Go(func() (err error) {
			parts[i], err = m.Play(ctx, orders[i])
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	out := replay.Merge(parts)
	for i, m := range st.machines {
		out.Machines = append(out.Machines, replay.Machine{Name: m.Name, Address: m.Address.String(), CPU: parts[i].CPU, Memory: parts[i].Memory})
	}
	return out, nil
}

func (st *stage) playCarriedElsewhere(ctx context.Context, o replay.Options) (*replay.Result, error) {
	var carried []*crew.Carried
	var carriers []*carrier.Carrier
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, m := range st.machines {
		c, err := m.Carry(ctx, st.addresses)
		if err != nil {
			return nil, err
		}
		carried, carriers = append(carried, c), append(carriers, c.Carrier)
		watching.Go(func() {
			select {
			case <-c.Gone():
			case <-m.Gone():
			case <-ctx.Done():
				return
			}
			cancel(fmt.Errorf("machine %s (%s) has gone in the midst of a run", m.Name, m.Address))
		})
	}
	targets := map[string]replay.Executor{}
	for i, role := range st.roles {
		targets[role] = carrier.Executor(carriers, i, o.Targets[role])
	}
	o.Targets = targets
	result, err := replay.Play(ctx, o)
	if lost := context.Cause(ctx); lost != nil && lost != ctx.Err() {
		err = errors.Join(lost, err)
	}
	if err != nil {
		return nil, err
	}
	cancel(nil)
	result.Memory = residentBytes(os.Getpid())
	for i, m := range st.machines {
		share, err := carried[i].Stop()
		if err != nil {
			return nil, err
		}
		result.Memory += share.Memory
		result.Machines = append(result.Machines, replay.Machine{Name: m.Name, Address: m.Address.String(), CPU: share.CPU, Memory: share.Memory})
	}
	return result, nil
}
