package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/chart"
	"gleaner/classify"
	"gleaner/cluster"
	"gleaner/input"
	"gleaner/lab"
)

// TestPageOfARealGleaner logs in with the link that 'gleaner up' prints, and submits a job. The log, which is
// kept, has neither the link's token nor the cookie.
func TestPageOfARealGleaner(t *testing.T) {
	dir := t.TempDir()
	u := startUp(t, dir, "--listen", "127.0.0.1:0")
	u.gleaner("status")
	base := u.address()
	link := regexp.MustCompile(`http://\S+`).FindString(readText(t, filepath.Join(dir, "out")))
	token, ok := strings.CutPrefix(link, base+"/login?token=")
	if !ok {
		t.Fatalf("it prints %q", readText(t, filepath.Join(dir, "out")))
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther || len(response.Cookies()) != 1 {
		t.Fatalf("%d with %d cookies", response.StatusCode, len(response.Cookies()))
	}
	cookie := response.Cookies()[0]
	asBrowser := func(method string) func(*http.Request) {
		return func(r *http.Request) {
			r.Method = method
			r.Header.Del("Authorization")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.AddCookie(cookie)
		}
	}
	if code, body := post(t, client, base+"/", "", "", asBrowser(http.MethodGet)); code != http.StatusOK || !strings.Contains(body, "Overview of") {
		t.Errorf("%d %s", code, body)
	}
	job := url.Values{"job": {"name: j\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: [echo, from the page]}]\n"}}
	if code, body := post(t, client, base+"/jobs", "", job.Encode(), asBrowser(http.MethodPost)); code != http.StatusSeeOther {
		t.Errorf("%d %s", code, body)
	}
	if j := u.await("j"); j.State != "finished" {
		t.Errorf("the job is %s", j.State)
	}
	if code, body := post(t, client, base+"/jobs/1/tasks/s-0", "", "", asBrowser(http.MethodGet)); !strings.Contains(body, ">from the page\n</pre>") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := post(t, client, link, "", "", asBrowser(http.MethodGet)); code != http.StatusUnauthorized {
		t.Errorf("the link works again: %d", code)
	}
	if code, _ := post(t, client, base+"/api/v1/link", readText(t, filepath.Join(dir, "token")), "", func(*http.Request) {}); code != http.StatusNotFound {
		t.Errorf("the network gives links: %d", code)
	}
	another := strings.TrimSpace(string(u.gleaner("status", "--link")))
	if code, _ := post(t, client, another, "", "", func(r *http.Request) { r.Method = http.MethodGet }); code != http.StatusSeeOther {
		t.Errorf("%s leads to %d", another, code)
	}
	log := readText(t, filepath.Join(dir, "log"))
	for what, secret := range map[string]string{"the link's token": token, "the cookie": cookie.Value, "another link": strings.TrimPrefix(another, base), "the API's token": readText(t, filepath.Join(dir, "token"))} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s", what)
		}
	}
}

// Without a network there is no page, and no link to it.
func TestNoPageWithoutANetwork(t *testing.T) {
	dir := t.TempDir()
	u := startUp(t, dir)
	u.gleaner("status")
	if text := readText(t, filepath.Join(dir, "out")); text != "" {
		t.Errorf("it prints %q", text)
	}
	out, err := exec.Command("gleaner", "status", "--link", "--data", dir).CombinedOutput()
	if exitCode(err) != exitBadInput || !strings.Contains(string(out), "there is no page") {
		t.Errorf("%v: %s", err, out)
	}
}

// Systemd's journal is kept and read by others: it gets no link, only the address.
func TestTheJournalGetsNoLink(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	writeText(t, out, "")
	info, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino))
	u := startUp(t, dir, "--listen", "127.0.0.1:0")
	u.gleaner("status")
	if text := readText(t, out); strings.Contains(text, "token") || !strings.Contains(text, u.address()) {
		t.Errorf("the journal has %q", text)
	}
}

// With TLS the link has a name that the certificate is for.
func TestLinkHasANameOfTheCertificate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for want, cert := range map[string]x509.Certificate{
		"https://gleaner.example:" + port: {DNSNames: []string{"*.example", "gleaner.example"}, IPAddresses: []net.IP{net.ParseIP("::1")}},
		"https://[::1]:" + port:           {DNSNames: []string{"*.example"}, IPAddresses: []net.IP{net.ParseIP("::1")}},
		"https://127.0.0.1:" + port:       {},
	} {
		if got := address(l, &tls.Config{Certificates: []tls.Certificate{{Leaf: &cert}}}); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := address(l, nil); got != "http://127.0.0.1:"+port {
		t.Errorf("without TLS %s", got)
	}
}

// TestPageWalk walks through all views in a real browser, on data of real jobs, a real vDisk, a
// generated history and a real plan.
func TestPageWalk(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to walk through the page in a browser; it takes minutes")
	}
	w := newWalker(t)
	dir := t.TempDir()
	w.history(dir, cmp.Or(os.Getenv("GLEANER_SERVERS"), "60")) // 5,000 to see how quick the page is then
	u := startUp(t, dir, "--listen", "127.0.0.1:0")
	u.gleaner("run", "../../examples/wordcount.yaml", "--wait")
	mustRun(t, "gleaner", "run", "--data", dir, "--name", "short", "--array", "1-3", "--", "sleep", "0.05") // over in a tenth of a second
	for _, args := range [][]string{{"create", "first", "64MiB"}, {"snapshot", "first", "monday"}, {"clone", "monday", "copy"}} {
		u.gleaner(append([]string{"disk"}, args...)...)
	}
	keepProgram(t, dir)
	if _, err := exec.LookPath("fio"); err == nil { // beside all of it
		w.load(u, "64m")
	}
	pictures := os.Getenv("GLEANER_PICTURES") // to look at
	if pictures == "" {
		pictures = t.TempDir()
	}
	w.node("walk.mjs", u, pictures)
}

func mustRun(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// The page tells which tenants have come or gone, and whose pattern or peak is another than the day before.
func TestChangesSinceTheDayBefore(t *testing.T) {
	tenant := func(id cluster.TenantID, p cluster.Pattern, peak float64) classify.Tenant {
		return classify.Tenant{ID: id, Pattern: p, Peak: peak}
	}
	before := classify.Result{Tenants: []classify.Tenant{tenant("gone", cluster.Constant, 0.5), tenant("same", cluster.Periodic, 0.5), tenant("shifted", cluster.Periodic, 0.5), tenant("turned", cluster.Constant, 0.5)}}
	now := classify.Result{Tenants: []classify.Tenant{tenant("new", cluster.Periodic, 0.5), tenant("same", cluster.Periodic, 0.55), tenant("shifted", cluster.Periodic, 0.7), tenant("turned", cluster.Periodic, 0.5)}}
	var got []string
	for _, c := range changesSince(before, now) {
		got = append(got, string(c.ID)+" "+c.What)
	}
	want := "new is new, and periodic\nshifted its peak is 70.0% of the cores now, was 50.0%\nturned is periodic now, was constant\ngone has no class any more, was constant"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// keepProgram keeps a program with the report of a replay, and a result of an experiment, where the page looks for them.
func keepProgram(t *testing.T, dir string) {
	t.Helper()
	traces := tracesBehind{filepath.Join(dir, "traces")}
	for _, text := range []string{learnedProgram, replayReport} {
		if err := traces.Save("job", text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "lab"), 0o700); err != nil {
		t.Fatal(err)
	}
	index := `{"experiments": [{"name": "fig13", "paper": "OSDI'16, Figure 13", "command": "gleaner reproduce fig13 --quick", "seconds": 2.5, "tables": [{"title": "Job times", "columns": ["policy", "paper", "ours"], "rows": [["history", "1181 s", "1164 s"]], "notes": ["in virtual time"]}]}]}`
	if err := os.WriteFile(filepath.Join(dir, "lab", "index.json"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
}

const learnedProgram = `version: 1
scales: [3, 4, 6]
types:
  - type: worker
    nodes: "n"
    sender: worker-{node}
    calls:
      - call: take#1
        target: master
        method: take
        args: {id: '{i}', uuid: '{unknown uuid}', kind: plain}
    steps:
      - repeat: 2*n
        steps: [{call: take#1}]
`

const replayReport = `{"program": "job", "held": 50, "gave_in": 100, "why": "calls take longer than a second", "runs": [
{"scale": 10, "verdict": "held", "per_second": 100, "calls": [{"node_type": "worker", "method": "take", "made": 200, "answered": 200, "latency_ms": {"p99": 3}}]},
{"scale": 50, "verdict": "held", "per_second": 480, "calls": [{"node_type": "worker", "method": "take", "made": 5000, "answered": 5000, "latency_ms": {"p99": 9}}]},
{"scale": 100, "verdict": "gave in", "per_second": 500, "calls": [{"node_type": "worker", "method": "take", "made": 20000, "answered": 20000, "latency_ms": {"p99": 2000}}]}]}`

// The page keeps a program, shows how it reads and what is to be filled in, and fills it in; what is wrong changes nothing.
func TestProgramsOfThePage(t *testing.T) {
	dir := t.TempDir()
	keepProgram(t, dir)
	traces := tracesBehind{filepath.Join(dir, "traces")}
	p, err := traces.Load("job")
	if err != nil || p.Scales != "3, 4, 6" || !strings.Contains(p.Listing, "repeat 2*n times:") || len(p.Asked) != 1 || len(p.Curves) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	if want := "The target held n = 50 and gave in at n = 100: calls take longer than a second."; p.Replay.Says != want || len(p.Replay.Panels) != 3 || p.Replay.Panels[2].Lines[0].Y[2] != 2000 {
		t.Errorf("%+v", p.Replay)
	}
	before := readText(t, filepath.Join(dir, "traces/job.yaml"))
	for what, err := range map[string]error{
		"a name that leads elsewhere": traces.Save("../x", learnedProgram),
		"a program with a mistake":    traces.Save("job", "version: 1\nnonsense: 2\n"),
		"JSON that is no report":      traces.Save("job", "{}"),
		"a report of no program":      traces.Save("other", replayReport),
		"an argument that is not":     traces.Fill("job", "take", "nothing", "x"),
		"a value with a mistake":      traces.Fill("job", "take", "uuid", "{nonsense"),
	} {
		if !input.Is(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := readText(t, filepath.Join(dir, "traces/job.yaml")); after != before {
		t.Errorf("it is now %s", after)
	}
	if err := traces.Fill("job", "take", "uuid", "job-{node}"); err != nil {
		t.Fatal(err)
	}
	if p, err := traces.Load("job"); err != nil || len(p.Asked) != 0 || p.Coverage[0].Regular != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	names, err := traces.List()
	if err != nil || len(names) != 1 || names[0] != "job" {
		t.Errorf("%v, %v", names, err)
	}
}

// The lab has all experiments, and the results that were saved.
func TestExperimentsOfThePage(t *testing.T) {
	dir := t.TempDir()
	keepProgram(t, dir)
	results := cache{dir: filepath.Join(dir, "cache")}
	figure := chart.Figure{Name: "f", Panels: []chart.Panel{{Title: "A picture", Lines: []chart.Line{{X: []float64{1, 2}, Y: []float64{1, math.NaN()}}}}}}
	if err := results.put("fig14", kept{Size: "quick, 1 seed", At: time.Now(), Tables: []lab.Table{{Title: "Kept", Columns: []string{"a"}, Rows: [][]string{{"b"}}}}, Figures: []chart.Figure{figure}}); err != nil {
		t.Fatal(err)
	}
	all, err := labBehind{filepath.Join(dir, "lab"), results}.experiments()
	if err != nil || len(all) != len(experiments()) {
		t.Fatalf("%d, %v", len(all), err)
	}
	for _, e := range all {
		if e.Name == "fig14" {
			if len(e.Figures) != 1 || len(e.Tables) != 1 || e.Tables[0].Title != "Kept" {
				t.Errorf("%+v", e)
			}
			continue
		}
		if e.Name == "fig13" != (len(e.Tables) == 1 && e.Paper != "" && e.Tables[0].Rows[0][1] == "1181 s") || !strings.HasPrefix(e.Command, "gleaner reproduce "+e.Name) {
			t.Errorf("%+v", e)
		}
	}
}
