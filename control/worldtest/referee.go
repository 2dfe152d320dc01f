package worldtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gleaner/cluster"
)

// A referee checks a world's events against the actions it got.
type referee struct {
	servers []cluster.ServerID
	asked   map[cluster.TaskID]cluster.Action // starts without an outcome yet
	running map[cluster.TaskID]cluster.ServerID
	kills   map[cluster.TaskID][]string // reasons of kills
}

func (r *referee) action(a cluster.Action) {
	if r.asked == nil {
		r.asked, r.running = map[cluster.TaskID]cluster.Action{}, map[cluster.TaskID]cluster.ServerID{}
		r.kills = map[cluster.TaskID][]string{}
	}
	switch a.Kind {
	case cluster.StartTask:
		r.asked[a.Task] = a
	case cluster.KillTask:
		r.kills[a.Task] = append(r.kills[a.Task], a.Reason)
	}
}

// event says what is wrong with an event.
func (r *referee) event(ev cluster.Event) error {
	err := whole(ev)
	switch ev.Kind {
	case cluster.ServerJoined:
		if err == nil && !slices.Contains(r.servers, ev.Server.ID) {
			r.servers = append(r.servers, ev.Server.ID)
		}
	case cluster.UseReported:
		for _, use := range ev.Use {
			err = errors.Join(err, r.known(use.On))
		}
	case cluster.TaskStarted:
		err = errors.Join(err, r.known(ev.On), r.started(ev))
	case cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		err = errors.Join(err, r.stopped(ev))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ev.Kind, err)
	}
	return nil
}

// whole says what an event lacks by itself, and whether it survives recording.
func whole(ev cluster.Event) error {
	if ev.At.IsZero() {
		return errors.New("it does not say when it happened")
	}
	if err := ev.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	var read cluster.Event
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if again, err := json.Marshal(read); err != nil || !bytes.Equal(text, again) {
		return fmt.Errorf("recorded as %s, read as %s (%v)", text, again, err)
	}
	return nil
}

func (r *referee) known(on cluster.ServerID) error {
	if !slices.Contains(r.servers, on) {
		return fmt.Errorf("server %q has not joined", on)
	}
	return nil
}

func (r *referee) started(ev cluster.Event) error {
	a, asked := r.asked[ev.Task]
	if !asked {
		return fmt.Errorf("%s was not asked to start, or has started already", ev.Task)
	}
	delete(r.asked, ev.Task)
	r.running[ev.Task] = ev.On
	if a.On != ev.On || a.Request != ev.Request {
		return fmt.Errorf("%s with %s on %s, want %s on %s", ev.Task, ev.Request, ev.On, a.Request, a.On)
	}
	return nil
}

func (r *referee) stopped(ev cluster.Event) error {
	on, running := r.running[ev.Task]
	a, asked := r.asked[ev.Task]
	if asked && ev.Kind == cluster.TaskNotStarted {
		on, running = a.On, true
	}
	switch {
	case !running:
		return fmt.Errorf("%s does not run", ev.Task)
	case on != ev.On:
		return fmt.Errorf("%s on %s, it was on %s", ev.Task, ev.On, on)
	case ev.Kind == cluster.TaskKilled && !slices.Contains(r.kills[ev.Task], ev.Reason):
		return fmt.Errorf("%s by %q, the reasons given were %q", ev.Task, ev.Reason, r.kills[ev.Task])
	case ev.Kind != cluster.TaskFinished && ev.Reason == "":
		return fmt.Errorf("%s does not say why", ev.Task)
	}
	delete(r.asked, ev.Task)
	delete(r.running, ev.Task)
	return nil
}

// over checks that everything that was started has ended.
func (r *referee) over(t interface{ Errorf(string, ...any) }) {
	for id := range r.asked {
		t.Errorf("%s was asked to start; no event followed", id)
	}
	for id := range r.running {
		t.Errorf("%s has not ended", id)
	}
}
