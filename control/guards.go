package control

import (
	"gleaner/cluster"
	"gleaner/harvest"
)

// Guards keep the reserve of some servers, each independently. They run beside the
// tasks, and do not need the core: any task, however started, is killed when the
// primary needs its room.
type Guards struct {
	reserve harvest.Reserve
	of      map[cluster.ServerID]*harvest.Guard
	actions []cluster.Action
}

// NewGuards keeps reserve free on every server that joins.
func NewGuards(reserve harvest.Reserve) *Guards {
	return &Guards{reserve: reserve, of: map[cluster.ServerID]*harvest.Guard{}}
}

// Step takes an event and returns which tasks to kill. The actions are valid until the
// next Step. Nil guards kill nothing.
func (g *Guards) Step(ev cluster.Event) []cluster.Action {
	if g == nil {
		return nil
	}
	g.actions = g.actions[:0]
	switch ev.Kind {
	case cluster.ServerJoined:
		if known := g.of[ev.Server.ID]; known != nil {
			known.Resize(*ev.Server)
		} else {
			g.of[ev.Server.ID] = harvest.NewGuard(*ev.Server, g.reserve)
		}
	case cluster.ServerLeft:
		delete(g.of, ev.On)
	case cluster.UseReported:
		one := ev
		for i := range ev.Use {
			one.Use = ev.Use[i : i+1]
			g.ask(ev.Use[i].On, one)
		}
	case cluster.TaskStarted, cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		g.ask(ev.On, ev)
	}
	return g.actions
}

func (g *Guards) ask(on cluster.ServerID, ev cluster.Event) {
	if guard := g.of[on]; guard != nil {
		g.actions = append(g.actions, guard.Step(ev)...)
	}
}
