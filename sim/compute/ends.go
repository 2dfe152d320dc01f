package compute

import "time"

// ends are when running tasks will end, the first on top (a heap with four
// children a node: flatter than two, and the four are adjacent in memory).
type ends []end

type end struct {
	at      time.Duration
	task    int32
	version int32 // differs from the task's if this end is outdated: the task was killed, or its speed changed
}

// before breaks ties by the task, so that the order never depends on the heap.
func (e end) before(o end) bool {
	return e.at < o.at || e.at == o.at && (e.task < o.task || e.task == o.task && e.version < o.version)
}

func (h ends) first() time.Duration {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}

func (h *ends) push(e end) {
	*h = append(*h, e)
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(a[up]) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = e
}

func (h *ends) pop() end {
	a := *h
	top, last := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) == 0 {
		return top
	}
	i := 0
	for {
		least := 4*i + 1
		if least >= len(a) {
			break
		}
		for k := least + 1; k < min(4*i+5, len(a)); k++ {
			if a[k].before(a[least]) {
				least = k
			}
		}
		if !a[least].before(last) {
			break
		}
		a[i] = a[least]
		i = least
	}
	a[i] = last
	return top
}
