package kube

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gleaner/cluster"
)

// A job of which no task runs says why once it has waited for a while: by an event, and a
// HarvestJob in its status as well. Only what stands in the way is said, without the figures
// that change all the time.

const (
	looks    = 2 * time.Second  // between two looks at the jobs that wait
	patience = 10 * time.Second // how long a job waits before it says why
	pause    = time.Minute      // from one reason of a job to the next
	failing  = 5 * time.Minute  // the longest pause of a task that has failed: its event says that it is run again
)

// explain has the jobs that wait say why; w.mu is held.
func (w *World) explain(now time.Time) {
	if now.Sub(w.explained) < looks {
		return
	}
	w.explained = now
	most := w.most()
	for _, j := range w.jobs {
		if j.running > 0 || j.run != nil || !j.past.Ended.IsZero() || j.gone {
			j.idle, j.waits = time.Time{}, ""
			continue
		}
		if j.idle.IsZero() {
			j.idle = now
		}
		quiet := patience
		if j.failed {
			quiet += failing
		}
		next := j.next()
		if next == nil || now.Sub(j.idle) < quiet || now.Sub(j.said) < pause {
			continue
		}
		if reason, text := lacks(next, most); text != j.waits {
			j.waits, j.said, j.changed = text, now, true
			w.say(j, corev1.EventTypeWarning, reason, "%s", text)
		}
	}
}

// most is what each node that is offered can give to harvested pods at most.
func (w *World) most() (all []cluster.Resources) {
	for _, n := range w.nodes {
		if size := (cluster.Resources{CPU: n.told.CPU, Memory: n.told.Memory}); size.CPU > 0 {
			if w.Most != nil {
				size = w.Most(size)
			}
			all = append(all, size)
		}
	}
	return all
}

// lacks is what a task of a stage lacks on nodes that give that much at most.
func lacks(st *cluster.Stage, most []cluster.Resources) (reason, text string) {
	needs := fmt.Sprintf("a task of %s needs %s", st.Name, st.Request)
	if len(most) == 0 {
		return "NoAgents", needs + ": there is no ready node whose agent reports what its primary uses"
	}
	if slices.ContainsFunc(most, st.Request.Fits) {
		return "NoRoom", needs + ": no node has that free now, beside its primary, what is kept free for it, and other harvested pods"
	}
	var largest cluster.Resources
	for _, m := range most {
		largest = largest.Max(m)
	}
	return "TooLarge", fmt.Sprintf("%s: no node can ever give that much, but at most %s", needs, largest)
}

// next is the first stage of which tasks may start; nil if there is none.
func (j *job) next() *cluster.Stage {
	done := map[string]bool{}
	stages := j.past.Job.Stages
	for i := range stages {
		done[stages[i].Name] = j.past.Finished(stages[i].Name).Len() == stages[i].Tasks
	}
	i := slices.IndexFunc(stages, func(s cluster.Stage) bool {
		return !done[s.Name] && !slices.ContainsFunc(s.After, func(before string) bool { return !done[before] })
	})
	if i < 0 {
		return nil
	}
	return &stages[i]
}

// say says in the API what became of a job or of one of its runs.
func (w *World) say(j *job, kind, reason, format string, args ...any) {
	if w.Events == nil || j.gone {
		return
	}
	var of runtime.Object = j.object
	if j.pod != nil {
		of = j.pod
	}
	w.Events.Eventf(of, nil, kind, reason, "Harvest", format, args...)
}
