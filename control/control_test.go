package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/harvest"
	"gleaner/input"
	"gleaner/sim/compute"
)

// waves are primaries whose use rises and falls, each server a little later than
// the one before it, with a jump now and then.
type waves struct{}

func (waves) CPU(server, slot int) float32 {
	u := float32((server*7+slot)%40) / 50
	if (server*31+slot*17)%97 == 0 {
		u += 0.4
	}
	return min(u, 1)
}

const servers = 24

func world(days int) *compute.World {
	window := cluster.Window{From: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), Step: 2 * time.Minute, Len: days * 720}
	cfg := compute.Config{Primaries: waves{}, Window: window}
	classes := []cluster.Class{{ID: "periodic-0", Pattern: cluster.Periodic, Mean: 0.4, Peak: 0.8}, {ID: "constant-0", Pattern: cluster.Constant, Mean: 0.4, Peak: 0.5}}
	for i := range servers {
		s := cluster.Server{ID: cluster.ServerID(fmt.Sprintf("s%02d", i)), Environment: fmt.Sprint("e", i%4), CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
		cfg.Servers = append(cfg.Servers, s)
		if i < 4 {
			classes[i%2].Tenants = append(classes[i%2].Tenants, s.Tenant())
		}
	}
	cfg.Classes = classes
	load := compute.Workload{Queries: compute.Queries(), Stretch: 3, Load: 0.12, Cores: 12 * servers}
	cfg.Arrivals = load.Arrivals(time.Duration(days)*24*time.Hour, rand.New(rand.NewPCG(1, 1)))
	return compute.New(cfg)
}

func brain(t *testing.T, name string) *control.Brain {
	t.Helper()
	policy, err := harvest.PolicyNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return control.NewBrain(harvest.Options{Policy: policy, Reserve: harvest.PaperReserve, Rand: rand.New(rand.NewPCG(2, 2))})
}

func TestAReplayDecidesAsTheRunDid(t *testing.T) {
	var tape bytes.Buffer
	rec := control.NewRecording(&tape)
	if err := control.Run(t.Context(), world(1), brain(t, "history"), rec); err != nil {
		t.Fatal(err)
	}
	if err := rec.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(tape.String(), `"action":"kill task"`); n == 0 {
		t.Error("nothing was killed: the recording shows too little")
	}
	events, err := control.Replay("run.jsonl", bytes.NewReader(tape.Bytes()), brain(t, "history"))
	if err != nil || events < 1000 {
		t.Errorf("replayed %d events: %v", events, err)
	}

	var differs *control.Difference
	if _, err := control.Replay("run.jsonl", bytes.NewReader(tape.Bytes()), brain(t, "primary")); !errors.As(err, &differs) {
		t.Errorf("another policy decided the same: %v", err)
	}
	lines := bytes.SplitAfter(tape.Bytes(), []byte("\n"))
	cut := bytes.Join(lines[:len(lines)-2], nil)
	if _, err := control.Replay("run.jsonl", bytes.NewReader(cut), brain(t, "history")); err == nil && bytes.Contains(lines[len(lines)-2], []byte(`"action"`)) {
		t.Error("an action that is missing at the end was not missed")
	}
}

func TestABadRecordingIsTheUsersMistake(t *testing.T) {
	for text, want := range map[string]string{
		"{":                             "run.jsonl:1: neither an event nor an action",
		`{"at":"2026-06-01T00:00:00Z"}`: "run.jsonl:1: neither an event nor an action",
		`{"event":"server exploded"}`:   `run.jsonl:1: cluster: unknown event "server exploded"`,
		`{"event":"server joined"}`:     "run.jsonl:1: the event lacks its server",
		"{\"event\":\"server left\"}\n{\"x\":1}\n": "run.jsonl:2: neither an event nor an action",
	} {
		_, err := control.Replay("run.jsonl", strings.NewReader(text), brain(t, "history"))
		if !input.Is(err) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func FuzzReplay(f *testing.F) {
	f.Add(`{"at":"2026-06-01T00:00:00Z","event":"server joined","server":{"ID":"s1","CPU":12000,"Memory":34359738368}}`)
	f.Add(`{"event":"job submitted","job":{"id":1,"name":"a","stages":[{"name":"m","tasks":2,"request":{"cpu":1000}}]}}`)
	f.Add(`{"event":"task finished","task":{"job":1,"stage":"m","index":-1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = control.Replay("run.jsonl", strings.NewReader(text), brain(t, "history"))
	})
}

// A referee watches a world and checks what is done in it.
type referee struct {
	*compute.World
	t       *testing.T
	guarded bool
	running map[cluster.TaskID]cluster.ServerID
	held    map[cluster.ServerID]cluster.Resources
	primary map[cluster.ServerID]cluster.Resources
	starts  map[cluster.JobID]int
}

func (r *referee) Next(ctx context.Context) (cluster.Event, error) {
	ev, err := r.World.Next(ctx)
	for _, u := range ev.Use {
		r.primary[u.On] = u.Primary.RoundUp()
	}
	switch ev.Kind {
	case cluster.TaskFinished, cluster.TaskKilled:
		r.held[ev.On] = r.held[ev.On].Sub(cluster.Resources{CPU: cluster.Core, Memory: 2 * cluster.GB})
		delete(r.running, ev.Task)
	}
	return ev, err
}

func (r *referee) Do(a cluster.Action) error {
	if a.Kind == cluster.StartTask {
		first := a.Task
		first.Attempt = 0
		for attempt := int32(0); attempt <= a.Task.Attempt; attempt++ {
			first.Attempt = attempt
			if on, twice := r.running[first]; twice {
				r.t.Fatalf("%s starts on %s while it runs on %s", a.Task, a.On, on)
			}
		}
		r.running[a.Task] = a.On
		r.held[a.On] = r.held[a.On].Add(a.Request)
		r.starts[a.Task.Job]++
		size := cluster.Resources{CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
		all := r.held[a.On].Add(r.primary[a.On]).Add(harvest.PaperReserve.Of(size))
		if r.guarded && !all.Fits(size) {
			r.t.Fatalf("%s starts on %s, where %v would be wanted", a.Task, a.On, all)
		}
	}
	return r.World.Do(a)
}

func TestEveryPolicyKeepsTheRules(t *testing.T) {
	for _, name := range harvest.PolicyNames() {
		r := &referee{World: world(2), t: t, guarded: name != "stock", running: map[cluster.TaskID]cluster.ServerID{},
			held: map[cluster.ServerID]cluster.Resources{}, primary: map[cluster.ServerID]cluster.Resources{}, starts: map[cluster.JobID]int{}}
		if err := control.Run(t.Context(), r, brain(t, name), nil); err != nil {
			t.Fatal(name, err)
		}
		res := r.Result()
		if res.TasksStarted == 0 || res.Jobs == res.Unfinished {
			t.Errorf("%s: %d tasks started, %d of %d jobs unfinished", name, res.TasksStarted, res.Unfinished, res.Jobs)
		}
		if r.guarded && res.Overload > 0 {
			t.Errorf("%s: primaries overloaded for %v", name, res.Overload)
		}
		if !r.guarded && (res.TasksKilled > 0 || res.Overload == 0) {
			t.Errorf("%s: %d killed, overloaded for %v", name, res.TasksKilled, res.Overload)
		}
	}
}
