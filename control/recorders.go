package control

import "gleaner/cluster"

// Recorders are several recorders as one.
type Recorders []Recorder

// Event passes an event to each.
func (r Recorders) Event(ev cluster.Event) error {
	for _, one := range r {
		if err := one.Event(ev); err != nil {
			return err
		}
	}
	return nil
}

// Action passes an action to each.
func (r Recorders) Action(a cluster.Action) error {
	for _, one := range r {
		if err := one.Action(a); err != nil {
			return err
		}
	}
	return nil
}
