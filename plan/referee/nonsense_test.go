package referee

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/plan"
)

// Limits on time and memory for documents that make no sense.
const (
	patience   = time.Second / 3  // before it is stopped
	hang       = 30 * time.Second // before it counts as hanging
	mostMemory = 1 << 30
)

// Ends after which the planner is still running.
const (
	hangs  = "hangs"
	hungry = "takes all memory"
)

// Any documents end in a plan, in an input error, or when stopped: never in a panic,
// a hang or out of memory. Thousands with GLEANER_LONG=1.
func TestAnyDocuments(t *testing.T) {
	from, to := seeds(t, 200, 3000)
	ends := map[string]int{}
	for seed := from; seed <= to; seed++ {
		w := writer{Rand: rand.New(rand.NewPCG(seed, 7))}
		d := documentsOf(seed, 1+int(seed%3))
		for range 1 + w.IntN(2) {
			w.disturb(d)
		}
		files := d.files()
		if w.chance(0.2) {
			i := w.IntN(3)
			files[i][1] = w.garble(files[i][1])
		}
		end, wrong := within(files, d.colocate)
		ends[end]++
		if wrong != nil {
			t.Errorf("seed %d: %v", seed, wrong)
			keep(t, seed, files, d.colocate)
		}
		if end == hangs || end == hungry {
			t.Fatal("it goes on in the background; no others were tried")
		}
	}
	t.Logf("%v", ends)
}

// within runs the planner under limits of time and memory.
func within(files [3][2]string, colocate bool) (end string, wrong error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil { // outside of the planner: in reading or in printing
				end, wrong = "panic", fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		end, wrong = attempt(files, colocate)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-done:
			return end, wrong
		case <-tick.C:
		}
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapInuse > mostMemory {
			return hungry, fmt.Errorf("takes more than %d MB", m.HeapInuse>>20)
		}
		if time.Since(began) > hang {
			return hangs, fmt.Errorf("goes on %v after it was told to stop", hang-patience)
		}
	}
}

func attempt(files [3][2]string, colocate bool) (string, error) {
	in, err := parse(files)
	if input.Is(err) {
		return "mistake", nil
	}
	if err != nil {
		return "", fmt.Errorf("not told as an input error: %w", err)
	}
	p, err := planned(in, colocate, patience)
	switch {
	case errors.Is(err, plan.ErrStopped):
		return "stopped", nil
	case input.Is(err):
		return "refused", nil
	case err != nil:
		return "", fmt.Errorf("not told as an input error: %w", err)
	}
	if math.IsNaN(p.Cost) || math.IsInf(p.Cost, 0) || p.Cost < 0 || !(p.LowerBound <= p.Cost*(1+tolerance)) {
		return "", fmt.Errorf("costs %g, and nothing costs less than %g", p.Cost, p.LowerBound)
	}
	for _, s := range p.Servers(in) {
		if s.Count < 1 || s.CPUs < 0 {
			return "", fmt.Errorf("a count below 0: %+v", s)
		}
	}
	p.Bill(in)
	return "planned", nil
}

// disturb makes one change to documents that is likely to break them.
func (w writer) disturb(d documents) {
	root := pick(w, d.app, d.app, d.hw, d.sla)
	e := pick(w, w.everything(root)...)
	switch w.IntN(10) {
	case 0, 1, 2, 3, 9:
		if len(e.attrs) > 0 {
			a := &e.attrs[w.IntN(len(e.attrs))]
			a[1] = w.value(a[1])
		}
	case 4:
		if len(e.attrs) > 0 {
			i := w.IntN(len(e.attrs))
			e.attrs = append(e.attrs[:i:i], e.attrs[i+1:]...)
		}
	case 5:
		if len(e.attrs) > 0 {
			e.attrs = append(e.attrs, pick(w, e.attrs...))
		}
	case 6:
		if len(e.kids) > 0 {
			i := w.IntN(len(e.kids))
			e.kids = append(e.kids[:i:i], e.kids[i+1:]...)
		}
	case 7:
		if len(e.kids) > 0 {
			e.add(pick(w, e.kids...).clone())
		}
	case 8:
		w.grow(d)
	}
}

func (w writer) everything(e *element) []*element {
	out := []*element{e}
	for _, k := range e.kids {
		out = append(out, w.everything(k)...)
	}
	return out
}

// value is a replacement for old.
func (w writer) value(old string) string {
	unit := unitOf(old)
	switch w.IntN(9) {
	case 0:
		return pick(w, "", "x", "NaN", "Inf", "-1", "0x10", "1e999", "9999999999999999999999", "t0", "d0", "srv0", "*", "\x00", "<", "ü", "1e") + pick(w, "", unit)
	case 1:
		b := make([]byte, w.IntN(12))
		for i := range b {
			b[i] = byte(w.IntN(256))
		}
		return string(b)
	case 2:
		return pick(w, "0", "1", "2", "1000000") + pick(w, "", unit)
	case 3:
		return w.number(1e-30, 1e30) + unit
	}
	if v, err := strconv.ParseFloat(strings.TrimSuffix(old, unit), 64); err == nil && v > 0 {
		return w.number(v*1e-9, v*1e9) + unit
	}
	return w.number(1e-9, 1e9) + unit
}

// grow adds large structures: chains and cycles of invocations, tasks, phases, units.
func (w writer) grow(d documents) {
	n := pick(w, 3, 25, 60)
	calls := pick(w, 1, 2)
	attrs := func(t int) []string { return []string{"name", fmt.Sprint("g", t), "memory", "1GB"} }
	switch w.IntN(5) {
	case 0, 1: // invoked by the first task, so that it runs
		for t := range n {
			e := el("task", attrs(t)...).add(el("compute", "time", "1us"))
			for range calls {
				if t+1 < n {
					e.add(w.step(el("dependency", "task", fmt.Sprint("g", t+1), "inline", pick(w, "0", "1")), true))
				} else if w.chance(0.2) {
					e.add(el("dependency", "task", "g0"))
				}
			}
			d.app.add(e)
		}
		if tasks := d.app.all("task"); tasks[0].get("name") != "g0" {
			tasks[0].add(el("dependency", "task", "g0"))
		}
	case 2: // phases
		for t := range n {
			d.app.add(el("task", append(attrs(t), "phase", fmt.Sprint("f", t), "consumes", w.number(1, 1000)+"MB")...).add(el("compute", "time", "1ms")))
		}
	case 3: // datasets
		tasks := d.app.all("task")
		for i := range n / 3 {
			name := fmt.Sprint("g", i)
			d.app.add(el("dataset", "name", name, "size", w.number(1, 1000)+"GB", "persistent", pick(w, "0", "1")))
			if len(tasks) > 0 {
				pick(w, tasks...).add(el("io", "op", "R", "dataset", name, "record_size", "1KB"))
			}
		}
	case 4: // hardware
		more := w.hardware(n)
		for i, e := range append(more.all("storage_unit"), more.all("server")...) {
			e.set("name", fmt.Sprint("g", i))
			d.hw.add(e)
		}
	}
}

// garble changes bytes of a text.
func (w writer) garble(text string) string {
	b := []byte(text)
	for range 1 + w.IntN(4) {
		if len(b) == 0 {
			break
		}
		at := w.IntN(len(b))
		switch w.IntN(4) {
		case 0:
			b[at] = byte(w.IntN(256))
		case 1:
			b = b[:at]
		case 2:
			b = append(b[:at:at], b[min(len(b), at+w.IntN(20)):]...)
		case 3:
			b = append(b[:at:at], strings.Repeat(string(b[at:min(len(b), at+30)]), 2)...)
		}
	}
	return string(b)
}
