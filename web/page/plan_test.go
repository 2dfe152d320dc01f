package page

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gleaner/plan"
)

// Small documents, of which each can be broken.
const (
	smallApp = `application:
  datasets:
    - {name: notes, size: 100GB, persistent: 1, remote: 1}
  tasks:
    - name: read
      memory: 10MB
      path:
        - io: {op: R, dataset: notes, record_size: 4KB}
        - compute: {time: 2ms}
`
	smallHW = `resources:
  currency: EUR
  storage_units:
    - {name: Disk, capacity: 500GB, bus: SAS, rateR: 90MBps, gapR: 8ms, rateW: 90MBps, gapW: 8ms, price: 200}
    - {name: RAM, capacity: 1GB, bus: DDR, rateR: 10GBps, gapR: 1ns, rateW: 10GBps, gapW: 1ns, volatile: 1, price: 25}
  cpu: {price: 85}
  servers:
    - name: box
      price: 1400
      cpus: 4
      BW: 1Gbps
      buses:
        - {name: SAS, slots: 4, BW: 6Gbps}
        - {name: DDR, slots: 12, BW: 20GBps}
`
	smallSLA = "slas:\n  - {task: read, rate: 50}\n"
)

// bring posts a form as one login; a field that ends in -file is a file.
func bring(h http.Handler, login Login, fields map[string]string) *httptest.ResponseRecorder {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range fields {
		part, err := form.CreateFormField(name)
		if strings.HasSuffix(name, "-file") {
			part, err = form.CreateFormFile(name, "shop.txt")
		}
		if err != nil {
			panic(err)
		}
		_, _ = part.Write([]byte(text)) // into memory
	}
	_ = form.Close()
	r := httptest.NewRequest(http.MethodPost, "/plan/own", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(WithLogin(r.Context(), login)))
	return w
}

func getAs(h http.Handler, login Login, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(WithLogin(r.Context(), login)))
	return w
}

func small() map[string]string {
	return map[string]string{"app": smallApp, "hw": smallHW, "sla": smallSLA}
}

// Documents that somebody brings are planned for, at an address that is theirs only, until they log out.
func TestOwnDocuments(t *testing.T) {
	h := empty(t).Handler()
	if w := get(h, "/plan/own"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "name: pictures") {
		t.Errorf("the form has no documents to start from: %d", w.Code)
	}
	ended := make(chan struct{})
	me := Login{"me", ended}
	fields := small()
	fields["app"] = "nonsense"
	fields["app-file"] = strings.ReplaceAll(smallApp, "\n", "\r\n") // a file takes the place of the text
	fields["hw2"] = strings.ReplaceAll(strings.ReplaceAll(smallHW, "price: 1400", "price: 900"), "Disk", "Platter")
	w := bring(h, me, fields)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/plan/own/1" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for path, says := range map[string][]string{
		"/plan/own/1":                      {"Your documents 1 at 1 times", "EUR", "proven cheapest", "notes on Disk", "searched for 2 s at most", `action="/plan/own/1"`},
		"/plan/own/1?against=hw2&hw=hw":    {"Compared with Your second list", "moves", "Pieces of Platter", "-1"},
		"/plan/own/1?hw=hw2&against=start": {"The list to start from", "notes on"},
		"/plan/own?from=1":                 {"name: notes"},
	} {
		w := getAs(h, me, path)
		for _, words := range says {
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), words) {
				t.Errorf("%s: %d, and it does not say %q", path, w.Code, words)
			}
		}
		checkMarkup(t, path, w.Body.String())
	}
	for _, path := range []string{"/plan/own/1", "/plan/own/1/robust", "/plan/own?from=1"} {
		if w := getAs(h, Login{Name: "another"}, path); w.Code != http.StatusNotFound {
			t.Errorf("another login sees %s: %d", path, w.Code)
		}
	}
	for range mostOwn {
		bring(h, me, small())
	}
	if first, last := getAs(h, me, "/plan/own/1").Code, getAs(h, me, "/plan/own/5").Code; first != http.StatusNotFound || last != http.StatusOK {
		t.Errorf("the first of five are there: %d, and the last: %d", first, last)
	}
	close(ended)
	for getAs(h, me, "/plan/own/5").Code != http.StatusNotFound { // a test that waits in vain is ended by its own limit
		time.Sleep(time.Millisecond)
	}
}

// A mistake is told with its document and line, all of them at once, and what was sent stays in the form.
func TestMistakesInOwnDocuments(t *testing.T) {
	h := empty(t).Handler()
	for name, tc := range map[string]struct {
		field, text string
		code        int
		says        []string
	}{
		"a line":      {"app", strings.Replace(smallApp, "100GB", "100furlongs", 1), 422, []string{"application:3: ", "100furlongs"}},
		"two lines":   {"hw", strings.Replace(strings.Replace(smallHW, "500GB", "x", 1), "cpus: 4", "cpus: y", 1), 422, []string{"hardware:4: ", "hardware:10: "}},
		"second list": {"hw2", "currency: EUR\n", 422, []string{"second hardware"}},
		"sla":         {"sla", "slas:\n  - {task: write, rate: 50}\n", 422, []string{"SLA:2: "}},
		"hostile":     {"app", hostile, 422, []string{"application"}},
		"missing":     {"sla", "", 422, []string{"SLA: is missing"}},
		"long":        {"app", strings.Repeat(" ", mostText+1), 422, []string{"application: longer than 64 KiB"}},
		"many":        {"hw", smallHW + strings.Repeat("    - {name: x, price: 1, cpus: 1, BW: 1Gbps}\n", mostServers), 422, []string{"hardware: 9 servers; here are planned at most 8"}},
		"too much":    {"app", strings.Repeat(" ", mostUpload), http.StatusRequestEntityTooLarge, []string{"more than 320 KiB were sent"}},
	} {
		fields := small()
		fields[tc.field] = tc.text
		w := bring(h, Login{Name: "me"}, fields)
		text := w.Body.String()
		for _, words := range append(tc.says, `role="alert"`) {
			if w.Code != tc.code || !strings.Contains(text, words) {
				t.Errorf("%s: %d, and it does not say %q", name, w.Code, words)
			}
		}
		if name == "a line" && !strings.Contains(text, "rate: 50") {
			t.Errorf("%s: the SLA is gone from the form", name)
		}
		checkMarkup(t, name, text)
	}
	if w := get(h, "/plan/own/1"); w.Code != http.StatusNotFound {
		t.Errorf("something was kept: %d", w.Code)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/plan/own", strings.NewReader("app=x")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a form of another kind: %d", w.Code)
	}
}

// Examples are compared by their names in the address.
func TestTwoHardwareLists(t *testing.T) {
	text := get(empty(t).Handler(), "/plan?example=photoshare&hw=server1&against=table1&level=8").Body.String()
	// As 'gleaner plan' finds them: 7,324 and 6,339 USD.
	for _, words := range []string{"7,324 USD", "6,339 USD", "-13.4%", "Pieces of Server2", "tags on", `value="table1" selected`, "/plan/robust?against=table1&amp;example=photoshare&amp;hw=server1&amp;level=8"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q", words)
		}
	}
	checkMarkup(t, "compared", text)
}

// The ranges on the page are those of the planner.
// What nobody looks at any more is not searched further.
func TestForsakenRobustness(t *testing.T) {
	s := empty(t)
	s.Handler()
	p := s.planning.examples[0].on(s.planning.lists[0])
	base, err := plan.Solve(p.in, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &robustness{seen: time.Now().Add(-2 * unseen)}
	if r.find(p, p.in, base.Needs.Architecture) || r.tried != 0 || !r.ended {
		t.Errorf("%d of its numbers were varied", r.tried)
	}
}

func TestRobustness(t *testing.T) {
	s := empty(t)
	h := s.Handler()
	me := Login{Name: "me"}
	if w := bring(h, me, small()); w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var text string
	for text = ""; !strings.Contains(text, "all of them"); text = getAs(h, me, "/plan/own/1/robust").Body.String() {
		time.Sleep(10 * time.Millisecond)
	}
	checkMarkup(t, "robust", text)
	in := s.planning.brought.find("me", "1").on(s.planning.brought.find("me", "1").Lists[0]).in
	base, err := plan.Solve(in, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	attributes := plan.Attributes(in)
	for _, a := range attributes {
		r, err := plan.Keeps(in, plan.Options{}, base.Needs.Architecture, a)
		if err != nil {
			t.Fatal(err)
		}
		row := rangeOf(r, a, false)
		if want := "<td>" + row.Name + "</td><td>" + row.Of + `</td><td class="n">` + row.Low + `</td><td class="n">` + row.Given + `</td><td class="n">` + row.High + "</td>"; !strings.Contains(text, want) {
			t.Errorf("no row %s", want)
		}
	}
	if len(attributes) < 10 {
		t.Errorf("only %d numbers", len(attributes))
	}
}

func TestAmounts(t *testing.T) {
	for want, got := range map[string]string{"500 GB": amount(500e9, "B"), "90 MB/s": amount(90e6, "B/s"), "600 ps": amount(6e-10, "s"), "8 ms": amount(0.008, "s"), "300 s": amount(300, "s"), "1400 EUR": amount(1400, "EUR"), "4": amount(4, "")} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// One login plans one thing at a time, and so does the machine; who goes away gives up the place in the queue.
func TestOnePlanAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := new(Turn)
		mine := &planner{turns: []*Turn{new(Turn), machine}}
		other := &planner{turns: []*Turn{new(Turn), machine}}
		order := make(chan string, 10)
		run := func(name string, p *planner, ctx context.Context) {
			if err := p.alone(ctx, func() { order <- name; time.Sleep(time.Second) }); err != nil {
				order <- name + " gives up"
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		for _, one := range []func(){
			func() { run("first", mine, t.Context()) },
			func() { run("second", mine, t.Context()) },
			func() { run("gone", mine, ctx) },
			func() { run("other", other, t.Context()) },
		} {
			go one()
			synctest.Wait()
		}
		leave()
		time.Sleep(time.Minute)
		for _, want := range []string{"first", "gone gives up", "other", "second"} {
			if got := <-order; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// A search ends when it has lasted long enough, when nobody waits for it any more, and when it meets a bug.
func TestSearchesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := func(o plan.Options) error {
			for !o.Stop() {
				time.Sleep(time.Millisecond)
			}
			return plan.ErrStopped
		}
		start := time.Now()
		if err := search(t.Context(), longestPlan, until); err != plan.ErrStopped || time.Since(start) > longestPlan+time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := search(gone, time.Hour, until); err != plan.ErrStopped || time.Since(start) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := search(t.Context(), time.Hour, func(plan.Options) error { panic("index out of range") }); err == nil || !strings.Contains(err.Error(), "index out of range") {
			t.Errorf("%v", err)
		}
	})
}
