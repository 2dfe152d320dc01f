package replay

import "testing"

// TestSentFirst: calls that a target sees do not wait for those that it does
// not, and both keep their order.
func TestSentFirst(t *testing.T) {
	q := newQueue(0, nil) // no workers: lanes stay until they are asked for
	seen, unseen := &kind{sent: true}, &kind{}
	lanes := []*lane{
		{site: &site{}, due: 3},
		{player: &player{kind: unseen}, due: 4},
		{site: &site{sent: true}, due: 1},
		{player: &player{kind: seen}, due: 2},
	}
	for _, l := range lanes {
		q.push(l)
	}
	for want := int64(1); want <= 4; want++ {
		if got := q.next(); got.due != want {
			t.Errorf("%d comes where %d is due", got.due, want)
		}
	}
}
