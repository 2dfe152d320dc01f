package fabric_test

import (
	"context"
	"testing"

	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/input"
)

// A disk that is retired is emptied without a group losing a replica, gets no more, and is used again when that is undone.
func TestRetire(t *testing.T) {
	t.Parallel()
	s := newShelf(t, upkeep.Policy{})
	for _, name := range []string{"a", "b", "c"} {
		s.add(name, disk.SSD, 256<<20)
	}
	data := s.fill("v", 40<<20, 2)
	if _, err := s.Retire(context.Background(), "nonsense"); !input.Is(err) {
		t.Errorf("a disk that there is not: %v", err)
	}
	if l, err := s.Retire(context.Background(), "a"); err != nil || l.State != "retiring" {
		t.Fatalf("%+v, %v", l, err)
	}
	done, _ := s.scan(upkeep.Retired)
	if n := s.disks["a"].Usage().Groups; done[upkeep.Evacuate] == 0 || n > 0 {
		t.Errorf("%v was done, and %d groups are left", done, n)
	}
	more := s.fill("w", 20<<20, 2)
	if n := s.disks["a"].Usage().Groups; n > 0 || stateOf(s.Front, "a") != "retired" {
		t.Errorf("the disk is %s and has %d groups", stateOf(s.Front, "a"), n)
	}
	s.holds("v", data)
	s.holds("w", more)
	for _, name := range []string{"v", "w"} {
		if stat, err := s.Stat(context.Background(), name); err != nil || stat.Have[2] != stat.Groups {
			t.Errorf("%+v, %v", stat, err)
		}
	}
	if l, err := s.Reinstate(context.Background(), "a"); err != nil || l.State != "up" {
		t.Fatalf("%+v, %v", l, err)
	}
	s.fill("x", 40<<20, 3)
	if s.disks["a"].Usage().Groups == 0 {
		t.Error("the disk is not used again")
	}
}

// A disk that cannot be emptied says how much is left on it, and how much of that has nowhere to go.
func TestRetireWithoutRoom(t *testing.T) {
	t.Parallel()
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 256<<20)
	s.add("b", disk.SSD, 256<<20)
	s.fill("v", 40<<20, 2)
	n := s.disks["a"].Usage().Groups
	if l, err := s.Retire(context.Background(), "a"); err != nil || l.Left != n || l.Stuck != n || n == 0 {
		t.Fatalf("of %d replicas, %+v, %v", n, l, err)
	}
	s.add("c", disk.HDD, 256<<20)
	if l := lentAs(s.Front, "a"); l.State != "retiring" || l.Left != n || l.Stuck != 0 {
		t.Errorf("with another disk: %+v", l)
	}
	s.scan(upkeep.Retired)
	if l := lentAs(s.Front, "a"); l.State != "retired" || l.Left != 0 {
		t.Errorf("at the end: %+v", l)
	}
}

// With several fronts a disk is not called retired before all know that it is: until then another may place a replica there.
func TestRetiredWhenAllFrontsKnow(t *testing.T) {
	s := newShelfOf(t, fabric.Options{Holder: "one of several"})
	s.add("a", disk.SSD, 256<<20)
	if l, err := s.Retire(context.Background(), "a"); err != nil || l.State != "retiring" {
		t.Fatalf("%+v, %v", l, err)
	}
	s.seconds.Add(19)
	if state := stateOf(s.Front, "a"); state != "retiring" {
		t.Errorf("after 19 s it is %s", state)
	}
	s.seconds.Add(1)
	if state := stateOf(s.Front, "a"); state != "retired" {
		t.Errorf("after 20 s it is %s", state)
	}
}
