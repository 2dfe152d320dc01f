package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/control/board"
)

// crowd is how many connections a stranger holds.
const crowd = 1100

// TestStrangersCostNothing lets a stranger hold more silent connections than
// gleaner may have files, and dial again whenever one is closed. Meanwhile jobs
// that come through the API and through the socket run to their end.
func TestStrangersCostNothing(t *testing.T) {
	if address := os.Getenv(besieged); address != "" {
		holdCrowd(address)
		return
	}
	if limit := fileLimit(); limit < 2*crowd {
		t.Skipf("the test itself needs %d files and may open %d", 2*crowd, limit)
	}
	limits := []int{1024, 512}
	if os.Getenv("GLEANER_LONG") != "" {
		limits = append(limits, 256)
	}
	for _, limit := range limits {
		t.Run(fmt.Sprint(limit, " files"), func(t *testing.T) {
			dir := t.TempDir()
			u := startUpIn(t, dir, fmt.Sprint("ulimit -n ", limit), "--listen", "127.0.0.1:0")
			u.gleaner("status")
			url, token := u.address(), readText(t, filepath.Join(dir, "token"))
			leave := besiege(t, strings.TrimPrefix(url, "http://"))

			const job = "name: %s\nstages: [{name: s, tasks: 20, cpu: 0.1, memory: 32MiB, command: [sh, -c, 'sleep 0.1']}]\n"
			if code, body := post(t, freshClient(), url+"/api/v1/jobs", token, fmt.Sprintf(job, "api"), func(*http.Request) {}); code != http.StatusCreated {
				t.Fatalf("%d: %s", code, body)
			}
			file := filepath.Join(t.TempDir(), "job.yaml")
			writeText(t, file, fmt.Sprintf(job, "socket"))
			u.gleaner("run", file)
			slowest := time.Duration(0)
			for range 10 {
				begin := time.Now()
				if code, body := get(t, freshClient(), url+"/api/v1/status", token); code != http.StatusOK {
					t.Errorf("%d: %s", code, body)
				}
				slowest = max(slowest, time.Since(begin))
			}
			for _, name := range []string{"api", "socket"} {
				if j := u.await(name); j.State != board.Finished || j.Stages[0].Failures > 0 {
					t.Errorf("%s: %s: %s, %d failures", name, j.State, j.Reason, j.Stages[0].Failures)
				}
			}
			if u.gone() {
				t.Error("gleaner has ended")
			}
			log := readText(t, filepath.Join(dir, "log"))
			if n := strings.Count(log, "no room") + strings.Count(log, "http:"); n > 10 {
				t.Errorf("%d lines of complaint in the log", n)
			}
			t.Logf("%s connections by a stranger; the slowest of 10 answers to who has the token took %s", leave(), slowest.Round(time.Millisecond))
		})
	}
}

// Tasks get the limit of files that gleaner was started with; gleaner itself has the
// hard limit.
func TestFileLimitIsRaisedAndGivenBack(t *testing.T) {
	dir := t.TempDir()
	u := startUpIn(t, dir, "ulimit -Sn 300 && ulimit -Hn 1000")
	file := filepath.Join(t.TempDir(), "job.yaml")
	writeText(t, file, "name: limits\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: [sh, -c, 'ulimit -Sn; ulimit -Hn']}]\n")
	u.gleaner("run", file)
	u.await("limits")
	if out := string(u.gleaner("logs", "job-1/s-0")); out != "300\n1000\n" {
		t.Errorf("the task has %q", out)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(u.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil || limit.Cur < 999 { // the runtime keeps one back
		t.Errorf("gleaner has %d: %v", limit.Cur, err)
	}
}

// besieged names the address for the process that holds connections to it.
const besieged = "GLEANER_TEST_BESIEGED"

// besiege lets a stranger hold connections and send nothing. It returns when each
// was open at least once. The stranger is a separate process, so that the client with
// the token does not share its threads.
func besiege(t *testing.T, address string) (leave func() (dialled string)) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestStrangersCostNothing$")
	cmd.Env = append(os.Environ(), besieged+"="+address)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	leave = sync.OnceValue(func() string {
		in.Close()
		said.Scan()
		dialled := said.Text()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		return dialled
	})
	t.Cleanup(func() { leave() })
	if !said.Scan() || said.Text() != "all there" {
		t.Fatalf("the stranger says %q", said.Text())
	}
	return leave
}

// holdCrowd is the main function of a stranger, which ends with stdin.
func holdCrowd(address string) {
	ctx, stop := context.WithCancel(context.Background())
	var dialled atomic.Int64
	var all, arrived sync.WaitGroup
	for range crowd {
		arrived.Add(1)
		all.Go(func() {
			once := sync.OnceFunc(arrived.Done)
			for ctx.Err() == nil {
				if holdOne(ctx, address, once) {
					dialled.Add(1)
				}
			}
			once()
		})
	}
	arrived.Wait()
	fmt.Println("all there")
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
	fmt.Println(dialled.Load())
}

// holdOne keeps one connection as long as it stays open; false if there is none.
func holdOne(ctx context.Context, address string, arrived func()) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return false
	}
	arrived()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = bufio.NewReader(conn).ReadByte()
	conn.Close()
	return true
}

// freshClient has no connection yet.
func freshClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
}

func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	return post(t, client, url, token, "", func(r *http.Request) { r.Method = http.MethodGet })
}

// gone reports whether u has ended on its own.
func (u *up) gone() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.cmd.Process.Pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}
