package harvest

import (
	"slices"

	"gleaner/cluster"
)

// A Guard keeps the reserve of one server: the primary's use, rounded up, the
// requests of harvested tasks and the reserve must fit on it together. If they
// do not, it kills tasks from the youngest to the oldest until they do
// (OSDI'16 §5.3).
type Guard struct {
	server  cluster.ServerID
	size    cluster.Resources
	kept    cluster.Resources // free
	reserve Reserve
	primary cluster.Resources // as it is counted
	held    cluster.Resources // by tasks that are not dying
	tasks   []guarded         // oldest first
	actions []cluster.Action
}

type guarded struct {
	id      cluster.TaskID
	request cluster.Resources
	dying   bool
}

// NewGuard returns a guard that keeps reserve free on server.
func NewGuard(server cluster.Server, reserve Reserve) *Guard {
	return &Guard{server: server.ID, size: server.Size(), kept: reserve.Of(server.Size()), reserve: reserve}
}

// Resize takes in a new size of the server. A size of nothing says that no task may be
// started there now, not that the primary needs those that run: the guard goes on as it was.
func (g *Guard) Resize(server cluster.Server) {
	if size := server.Size(); size != (cluster.Resources{}) {
		g.size, g.kept = size, g.reserve.Of(size)
	}
}

// Step takes an event on the server and returns which tasks to kill. The
// actions are valid until the next Step.
func (g *Guard) Step(ev cluster.Event) []cluster.Action {
	g.actions = g.actions[:0]
	switch ev.Kind {
	case cluster.UseReported:
		for _, use := range ev.Use {
			if use.On == g.server {
				g.primary = g.reserve.Counted(use.Primary)
			}
		}
	case cluster.TaskStarted:
		g.tasks = append(g.tasks, guarded{id: ev.Task, request: ev.Request})
		g.held = g.held.Add(ev.Request)
	case cluster.TaskFinished, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskNotStarted:
		g.forget(ev.Task)
	}
	if short := g.short(); short != (cluster.Resources{}) && g.held != (cluster.Resources{}) {
		g.replenish(short)
	}
	return g.actions
}

func (g *Guard) forget(id cluster.TaskID) {
	for i := range g.tasks {
		if g.tasks[i].id == id {
			if !g.tasks[i].dying {
				g.held = g.held.Sub(g.tasks[i].request)
			}
			g.tasks = slices.Delete(g.tasks, i, i+1)
			return
		}
	}
}

// short is what the reserve lacks. Dying tasks do not count: otherwise more
// tasks would be killed for resources that are about to be freed.
func (g *Guard) short() cluster.Resources {
	return g.primary.Add(g.held).Add(g.kept).Sub(g.size).Max(cluster.Resources{})
}

// replenish kills from the youngest to the oldest (the youngest has the least
// work to lose), skips tasks that hold nothing of what is short, and then
// spares, the oldest first, those that need not die because others do. A
// shortage beyond what tasks hold cannot be resolved by kills.
func (g *Guard) replenish(short cluster.Resources) {
	none := cluster.Resources{}
	reason := "reserve short by " + short.String()
	short = short.Min(g.held)
	var victims []int
	missing := short
	for i := len(g.tasks) - 1; i >= 0 && missing != none; i-- {
		t := &g.tasks[i]
		helps := missing.CPU > 0 && t.request.CPU > 0 || missing.Memory > 0 && t.request.Memory > 0
		if !t.dying && helps {
			missing = missing.Sub(t.request).Max(none)
			victims = append(victims, i)
		}
	}
	var freed cluster.Resources
	for _, i := range victims {
		freed = freed.Add(g.tasks[i].request)
	}
	for k := len(victims) - 1; k >= 0; k-- { // oldest first
		if less := freed.Sub(g.tasks[victims[k]].request); short.Fits(less) {
			freed = less
			victims = slices.Delete(victims, k, k+1)
		}
	}
	for _, i := range victims {
		t := &g.tasks[i]
		t.dying = true
		g.held = g.held.Sub(t.request)
		g.actions = append(g.actions, cluster.Action{Kind: cluster.KillTask, Task: t.id, On: g.server, Reason: reason})
	}
}
