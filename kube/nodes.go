package kube

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"gleaner/cluster"
)

// A node is a server.
type node struct {
	server cluster.Server // with all it has
	labels map[string]string
	usable bool           // it is ready and not cordoned
	told   cluster.Server // as it joined
}

// A report is the last one of a node.
type report struct {
	primary cluster.Resources
	version string // of the Lease
	heard   time.Time
	news    bool // nobody was told yet
}

func (w *World) nodeSeen(n *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.join(n)
}

// join takes in a node, or what has changed of it.
func (w *World) join(n *corev1.Node) {
	id := cluster.ServerID(n.Name)
	known := w.nodes[id]
	if known == nil {
		known = &node{}
		w.nodes[id] = known
	}
	size := SizeOf(n)
	environment, function := w.tenantOf(n.Labels, id)
	known.labels = n.Labels
	known.server = cluster.Server{ID: id, Environment: environment, Function: function, Rack: n.Labels[w.Labels.Rack], CPU: size.CPU, Memory: size.Memory}
	known.usable = !n.Spec.Unschedulable && n.DeletionTimestamp == nil && ready(n)
	w.offer(known, time.Now())
}

// SizeOf is all that a node has.
func SizeOf(n *corev1.Node) cluster.Resources {
	cpu, memory := n.Status.Capacity[corev1.ResourceCPU], n.Status.Capacity[corev1.ResourceMemory]
	return cluster.Resources{CPU: cluster.MilliCPU(cpu.MilliValue()), Memory: cluster.Bytes(memory.Value())}
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// offer tells what a node has, which is nothing if it is not usable or silent, if that has
// changed. What its primary uses is told before there is any room to give away.
func (w *World) offer(n *node, now time.Time) {
	s, r := n.server, w.reports[n.server.ID]
	if !n.usable || r == nil || now.Sub(r.heard) > w.Silence {
		s.CPU, s.Memory = 0, 0
	}
	if s == n.told {
		return
	}
	if n.told.ID == "" {
		empty := s
		empty.CPU, empty.Memory = 0, 0
		w.tell(cluster.Event{Kind: cluster.ServerJoined, Server: &empty})
	}
	if s.CPU > 0 {
		r.news = true
		w.tellUse(s.ID)
	}
	if n.told.ID != "" || s.CPU > 0 {
		w.tell(cluster.Event{Kind: cluster.ServerJoined, Server: &s})
	}
	n.told = s
}

// nodeGone: whatever ran there is gone with the machine.
func (w *World) nodeGone(n *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := cluster.ServerID(n.Name)
	delete(w.nodes, id)
	var lost []*task
	for _, t := range w.tasks {
		if t.on != id {
			continue
		}
		if !isPlain(t.pod) {
			lost = append(lost, t)
			continue
		}
		if t.created { // it is not run elsewhere
			w.tell(cluster.Event{Kind: cluster.JobCancelled, ID: t.id.Job})
		}
		w.stops(t)
	}
	w.tell(cluster.Event{Kind: cluster.ServerLeft, On: id})
	for _, t := range lost {
		w.lose(t)
	}
}

func (w *World) reportSeen(lease *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readReport(lease)
	if n := w.nodes[cluster.ServerID(lease.Name)]; n != nil {
		w.offer(n, time.Now())
	}
}

func (w *World) readReport(lease *coordinationv1.Lease) {
	id := cluster.ServerID(lease.Name)
	if r := w.reports[id]; r != nil && r.version == lease.ResourceVersion {
		return
	}
	primary, err := readReport(lease)
	if err != nil {
		w.Log.Warn("a report cannot be read; its node offers nothing once it counts as silent", "because", err)
		return
	}
	w.reports[id] = &report{primary: primary, version: lease.ResourceVersion, heard: time.Now(), news: true}
}

func (w *World) reportGone(lease *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reports, cluster.ServerID(lease.Name))
}

// tellUse tells the last report of a node, if nobody was told yet: who decides what follows
// from a kill must know what made it necessary.
func (w *World) tellUse(on cluster.ServerID) {
	if r := w.reports[on]; r != nil && r.news {
		r.news = false
		w.tell(cluster.Event{Kind: cluster.UseReported, Use: []cluster.Use{{On: on, Primary: r.primary}}})
	}
}

// look tells what was reported since the last look, and which nodes have fallen silent; jobs
// that wait say why.
func (w *World) look(now time.Time) {
	var use []cluster.Use
	for _, n := range w.nodes {
		w.offer(n, now)
		if r := w.reports[n.server.ID]; r != nil && r.news && n.told.CPU > 0 {
			use = append(use, cluster.Use{On: n.server.ID, Primary: r.primary})
			r.news = false
		}
	}
	if len(use) > 0 {
		slices.SortFunc(use, func(a, b cluster.Use) int { return cmp.Compare(a.On, b.On) })
		w.tell(cluster.Event{Kind: cluster.UseReported, Use: use})
	}
	w.explain(now)
}
