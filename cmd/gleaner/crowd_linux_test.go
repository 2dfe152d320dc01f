package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gleaner/cluster"
)

// TestACrowd has a thousand submit at once and a hundred follow what a task writes, while a
// million tasks wait: all are served, gleaner up stays small, and its guard is measured before
// and meanwhile. It only reports how quick that is: see TestBurstToTheLastProcessGone.
func TestACrowd(t *testing.T) {
	submitters, followers, bursts := 100, 20, 1
	if os.Getenv("GLEANER_LONG") != "" {
		submitters, followers, bursts = 1000, 100, 20
	}
	const most = 300 << 20
	u, out := startHolding(t, "echo written; exec sleep 1000")
	alone, _ := u.bursts(out, bursts)
	if !u.holds() {
		t.Skip("somebody else keeps this machine busy now")
	}
	ask := u.client(t)
	large := func(name string, tasks int) string { // there is no room for such a task beside those that run
		return fmt.Sprintf("name: %s\nstages: [{name: s, tasks: %d, cpu: %.1f, memory: 4MiB, command: ['true']}]\n", name, tasks, float64(runtime.NumCPU())-0.5)
	}
	if code, text := ask(http.MethodPost, "/api/v1/jobs", large("wide", 1_000_000)); code != http.StatusCreated {
		t.Fatalf("a million tasks: %d: %s", code, text)
	}
	follow, end := context.WithCancel(t.Context())
	defer end()
	var following, read sync.WaitGroup
	for i := range followers {
		read.Add(1)
		following.Go(func() {
			got, told := u.follow(follow, fmt.Sprintf("/api/v1/jobs/1/tasks/hold-%d/output?follow=true", i%3)), false
			for line := range got {
				if strings.Contains(line, "written") && !told {
					told = true
					read.Done()
				}
			}
			if !told {
				t.Errorf("follower %d was told nothing", i)
				read.Done()
			}
		})
	}
	read.Wait()
	var took []time.Duration
	var lock sync.Mutex
	var all sync.WaitGroup
	begun := time.Now()
	for i := range submitters {
		all.Go(func() {
			at := time.Now()
			code, text := ask(http.MethodPost, "/api/v1/jobs", large(fmt.Sprint("j", i), 1))
			if code != http.StatusCreated {
				t.Errorf("submitter %d: %d: %s", i, code, text)
			}
			lock.Lock()
			defer lock.Unlock()
			took = append(took, time.Since(at))
		})
	}
	all.Wait()
	slices.Sort(took)
	t.Logf("%d submitters at once: all within %v, half of them within %v", submitters, time.Since(begun).Round(time.Millisecond), took[len(took)/2].Round(time.Millisecond))
	if s := u.status(); s.Running+s.Waiting != 3+1_000_000+submitters {
		t.Errorf("%d tasks run and %d wait", s.Running, s.Waiting)
	}
	crowded, _ := u.bursts(out, bursts)
	if used := residentBytes(u.cmd.Process.Pid); used > most {
		t.Errorf("gleaner up takes %s", cluster.Bytes(used).Text())
	} else {
		t.Logf("gleaner up takes %s", cluster.Bytes(used).Text())
	}
	slices.Sort(alone)
	slices.Sort(crowded)
	t.Logf("from a burst to the last process of a task gone, half of %d times and at most: alone %v and %v, in a crowd %v and %v", bursts,
		alone[len(alone)/2].Round(time.Millisecond), alone[len(alone)-1].Round(time.Millisecond), crowded[len(crowded)/2].Round(time.Millisecond), crowded[len(crowded)-1].Round(time.Millisecond))
	end()
	following.Wait()
}

// dial connects to the socket of a gleaner.
func (u *up) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", socketPath(u.dir))
}

// client gives a function that sends a request on a connection of its own.
func (u *up) client(t *testing.T) func(verb, path, job string) (int, string) {
	return func(verb, path, job string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), verb, "http://gleaner"+path, strings.NewReader(job))
		if err != nil {
			return 0, err.Error()
		}
		r.Header.Set("Content-Type", "application/yaml")
		c := http.Client{Transport: &http.Transport{DialContext: u.dial, DisableKeepAlives: true}}
		reply, err := c.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			return 0, err.Error()
		}
		return reply.StatusCode, string(text)
	}
}

// follow gives what a path answers, as it comes, until the context ends.
func (u *up) follow(ctx context.Context, path string) <-chan string {
	came := make(chan string)
	go func() {
		defer close(came)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gleaner"+path, nil)
		if err != nil {
			return
		}
		c := http.Client{Transport: &http.Transport{DialContext: u.dial, DisableKeepAlives: true}}
		reply, err := c.Do(r)
		if err != nil {
			return
		}
		defer reply.Body.Close()
		for buffer := make([]byte, 4096); err == nil; {
			var n int
			if n, err = reply.Body.Read(buffer); n > 0 {
				came <- string(buffer[:n])
			}
		}
	}()
	return came
}
