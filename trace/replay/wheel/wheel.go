// Package wheel holds many timers: a ring of slots, one for each millisecond, so that
// setting, moving and stopping a timer takes the same short time for any number of
// them. It has no clock: the caller of Turn gives the time.
package wheel

// tick is the time of one slot, in nanoseconds. A timer beyond the last slot stays for
// another turn.
const (
	tick  = 1_000_000
	slots = 4096
)

// A Timer belongs to Of. The zero Timer is not set.
type Timer[T any] struct {
	Of         *T
	due        int64
	prev, next *Timer[T]
}

// Due is when the timer was last set for.
func (t *Timer[T]) Due() int64 { return t.due }

// A Wheel holds timers. It is not safe for concurrent use.
type Wheel[T any] struct {
	slots [slots]Timer[T] // heads of rings
	at    int64           // the tick of the last turn
	count int
}

// New returns a wheel at a time, in nanoseconds.
func New[T any](now int64) *Wheel[T] {
	w := &Wheel[T]{at: now / tick}
	for i := range w.slots {
		head := &w.slots[i]
		head.prev, head.next = head, head
	}
	return w
}

// Len counts the timers that are set.
func (w *Wheel[T]) Len() int { return w.count }

// Set sets a timer, also if it is set already.
func (w *Wheel[T]) Set(t *Timer[T], due int64) {
	w.Stop(t)
	t.due = due
	head := &w.slots[max(due/tick, w.at)%slots]
	t.prev, t.next = head.prev, head
	head.prev.next, head.prev = t, t
	w.count++
}

// Stop takes a timer off the wheel.
func (w *Wheel[T]) Stop(t *Timer[T]) {
	if t.next == nil {
		return
	}
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
	w.count--
}

// Turn removes every timer that is due and calls fire for it, earlier slots first. fire
// may set that timer again, for a later time, and no other.
func (w *Wheel[T]) Turn(now int64, fire func(*T)) {
	end := now / tick
	first := max(w.at, end-slots+1)
	for at := first; at <= end; at++ {
		w.at = at
		head := &w.slots[at%slots]
		for t := head.next; t != head; {
			next := t.next
			if t.due <= now {
				w.Stop(t)
				fire(t.Of)
			}
			t = next
		}
	}
}
