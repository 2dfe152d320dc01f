package worldtest

import (
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
)

// TestPlantedMistakes shows that the referee finds each mistake a world can make.
func TestPlantedMistakes(t *testing.T) {
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	task := cluster.TaskID{Job: 1, Stage: "long"}
	joined := cluster.Event{At: at, Kind: cluster.ServerJoined, Server: &cluster.Server{ID: "s1"}}
	started := cluster.Event{At: at, Kind: cluster.TaskStarted, Task: task, On: "s1", Request: request}
	killed := cluster.Event{At: at, Kind: cluster.TaskKilled, Task: task, On: "s1", Reason: "enough"}
	with := func(ev cluster.Event, change func(*cluster.Event)) cluster.Event { change(&ev); return ev }
	for name, tc := range map[string]struct {
		events []cluster.Event
		want   string
	}{
		"all well":         {[]cluster.Event{joined, started, killed}, ""},
		"not started":      {[]cluster.Event{joined, with(killed, func(ev *cluster.Event) { ev.Kind = cluster.TaskNotStarted })}, ""},
		"no time":          {[]cluster.Event{with(joined, func(ev *cluster.Event) { ev.At = time.Time{} })}, "does not say when"},
		"no server":        {[]cluster.Event{with(joined, func(ev *cluster.Event) { ev.Server = nil })}, "lacks its server"},
		"no kind":          {[]cluster.Event{with(joined, func(ev *cluster.Event) { ev.Kind = 0 })}, "unknown event"},
		"use of a strange": {[]cluster.Event{joined, {At: at, Kind: cluster.UseReported, Use: []cluster.Use{{On: "s2"}}}}, `"s2" has not joined`},
		"before it joined": {[]cluster.Event{started}, `"s1" has not joined`},
		"started twice":    {[]cluster.Event{joined, started, started}, "has started already"},
		"elsewhere":        {[]cluster.Event{joined, with(joined, func(ev *cluster.Event) { ev.Server = &cluster.Server{ID: "s2"} }), with(started, func(ev *cluster.Event) { ev.On = "s2" })}, ", want "},
		"with less":        {[]cluster.Event{joined, with(started, func(ev *cluster.Event) { ev.Request.CPU-- })}, ", want "},
		"another's run":    {[]cluster.Event{joined, with(started, func(ev *cluster.Event) { ev.Task.Attempt++ })}, "was not asked to start"},
		"never started":    {[]cluster.Event{joined, killed}, "does not run"},
		"killed twice":     {[]cluster.Event{joined, started, killed, killed}, "does not run"},
		"killed elsewhere": {[]cluster.Event{joined, started, with(killed, func(ev *cluster.Event) { ev.On = "s2" })}, "it was on s1"},
		"another reason":   {[]cluster.Event{joined, started, with(killed, func(ev *cluster.Event) { ev.Reason = "whim" })}, "the reasons given were"},
		"no reason":        {[]cluster.Event{joined, started, with(killed, func(ev *cluster.Event) { ev.Kind, ev.Reason = cluster.TaskFailed, "" })}, "does not say why"},
		"not told":         {[]cluster.Event{joined}, "no event followed"},
		"never ended":      {[]cluster.Event{joined, started}, "has not ended"},
	} {
		var r referee
		r.action(cluster.Action{Kind: cluster.StartTask, Task: task, On: "s1", Request: request})
		r.action(cluster.Action{Kind: cluster.KillTask, Task: task, On: "s1", Reason: "enough"})
		var said complaints
		for _, ev := range tc.events {
			if err := r.event(ev); err != nil {
				said = append(said, err.Error())
			}
		}
		r.over(&said)
		got := strings.Join(said, "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: the referee said %q, want %q", name, got, tc.want)
		}
	}
}

type complaints []string

func (c *complaints) Errorf(format string, _ ...any) { *c = append(*c, format) }
