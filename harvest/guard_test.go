package harvest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
)

// TestGuardKillsNoMoreThanNeeded plays random runs and, whenever the guard
// kills, tries all ways out of it.
func TestGuardKillsNoMoreThanNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server := cluster.Server{ID: "s1", CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
		g := NewGuard(server, PaperReserve)
		room := server.Size().Sub(PaperReserve.Of(server.Size()))
		var primary cluster.Resources
		var live, dying []guarded // oldest first
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			ev := cluster.Event{Kind: cluster.UseReported}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				primary = cluster.Resources{CPU: cluster.MilliCPU(rapid.IntRange(0, 12000).Draw(t, "cpu")), Memory: cluster.Bytes(rapid.IntRange(0, 32).Draw(t, "memory")) * cluster.GB}
				ev.Use = []cluster.Use{{On: "s1", Primary: primary}}
			case 1, 2:
				task := guarded{id: cluster.TaskID{Job: 1, Stage: "map", Index: int32(step)}, request: cluster.Resources{
					CPU: cluster.MilliCPU(rapid.IntRange(0, 4).Draw(t, "cores")) * cluster.Core, Memory: cluster.Bytes(rapid.IntRange(0, 8).Draw(t, "gb")) * cluster.GB}}
				live = append(live, task)
				ev = cluster.Event{Kind: cluster.TaskStarted, Task: task.id, On: "s1", Request: task.request}
			case 3:
				if len(dying) > 0 {
					ev = cluster.Event{Kind: cluster.TaskKilled, Task: dying[0].id, On: "s1"}
					dying = dying[1:]
				}
			}
			killed := map[cluster.TaskID]bool{}
			for _, a := range g.Step(ev) {
				killed[a.Task] = true
			}
			left := room.Sub(primary.RoundUp())
			checkVictims(t, live, killed, left)
			var stay []guarded
			for _, task := range live {
				if killed[task.id] {
					dying = append(dying, task)
				} else {
					stay = append(stay, task)
				}
			}
			if len(stay)+len(killed) != len(live) {
				t.Fatalf("killed %v, of which some were dying or gone", killed)
			}
			live = stay
		}
	})
}

func checkVictims(t *rapid.T, live []guarded, killed map[cluster.TaskID]bool, left cluster.Resources) {
	var held cluster.Resources
	for _, task := range live {
		if !killed[task.id] {
			held = held.Add(task.request)
		}
	}
	enough := func(held cluster.Resources) bool {
		over := held.Sub(left) // only what tasks hold can be freed by kills
		return (over.CPU <= 0 || held.CPU == 0) && (over.Memory <= 0 || held.Memory == 0)
	}
	if !enough(held) {
		t.Fatalf("tasks that hold %v stay where %v is left", held, left)
	}
	for i, victim := range live {
		if !killed[victim.id] {
			continue
		}
		if enough(held.Add(victim.request)) {
			t.Fatalf("%s was killed for nothing", victim.id)
		}
		// A younger task is spared only if killing it as well would save no other
		// task: it must not suffice in place of an older victim.
		for _, younger := range live[i+1:] {
			if !killed[younger.id] && enough(held.Add(victim.request).Sub(younger.request)) && younger.request == victim.request {
				t.Fatalf("%s was killed before the younger %s", victim.id, younger.id)
			}
		}
	}
}

func BenchmarkGuardUse(b *testing.B) {
	g := NewGuard(cluster.Server{ID: "s1", CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}, PaperReserve)
	for i := range 7 {
		g.Step(cluster.Event{Kind: cluster.TaskStarted, Task: cluster.TaskID{Job: 1, Stage: "map", Index: int32(i)}, On: "s1", Request: cluster.Resources{CPU: cluster.Core, Memory: cluster.GB}})
	}
	b.Run(fmt.Sprintf("%dtasks", 7), func(b *testing.B) {
		ev := cluster.Event{Kind: cluster.UseReported, Use: []cluster.Use{{On: "s1", Primary: cluster.Resources{CPU: 500}}}}
		for b.Loop() {
			g.Step(ev)
		}
	})
}

// A server that joins again keeps its tasks: one that offers nothing kills none of them, one
// that became smaller kills those that no longer fit.
func TestGuardOfAServerThatJoinsAgain(t *testing.T) {
	server := cluster.Server{ID: "s1", CPU: 12 * cluster.Core, Memory: 32 * cluster.GB}
	g := NewGuard(server, PaperReserve)
	for i := range int32(2) {
		g.Step(cluster.Event{Kind: cluster.TaskStarted, On: "s1", Task: cluster.TaskID{Job: 1, Stage: "map", Index: i}, Request: cluster.Resources{CPU: 3 * cluster.Core}})
	}
	idle := cluster.Event{Kind: cluster.UseReported, Use: []cluster.Use{{On: "s1"}}}
	g.Resize(cluster.Server{ID: "s1"})
	if kills := g.Step(idle); len(kills) > 0 {
		t.Errorf("nothing offered: %v", kills)
	}
	server.CPU = 6 * cluster.Core
	g.Resize(server)
	if kills := g.Step(idle); len(kills) != 1 || kills[0].Task.Index != 1 {
		t.Errorf("half as large: %v", kills)
	}
}
