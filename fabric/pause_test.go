package fabric_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/kv/mem"
)

// Two fronts look after the same vDisks. One has tasks to do when upkeep is paused at the other: it begins none after half a second.
func TestPauseReachesAllFronts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := mem.New()
	other := idleFront(t, store)
	s := newShelfOf(t, fabric.Options{Store: store, Holder: "here", Policy: upkeep.Default()})
	s.add("a", disk.SSD, 128<<20)
	const most = 8
	for i := range most {
		name := fmt.Sprint("v", i)
		s.fill(name, 4096, 1)
		if err := s.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "one is done, and the others wait", func() bool { // its clock stands, and it rests after each
		waiting, done := s.tasks()
		return waiting >= most-1 && done > 0
	})
	if err := other.Pause(ctx, "test"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(600 * time.Millisecond)
	_, done := s.tasks()
	s.seconds.Add(3600)
	time.Sleep(300 * time.Millisecond)
	if _, now := s.tasks(); now > done {
		t.Errorf("%d tasks were done in a pause", now-done)
	}
	if err := other.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, "the tasks are done", func() bool { s.seconds.Add(10); waiting, _ := s.tasks(); return waiting == 0 })
}

// A front is started in a pause, which another one ends before its machine is switched off.
func TestResumeReachesAllFronts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := mem.New()
	other := idleFront(t, store)
	if err := other.Pause(ctx, "test"); err != nil {
		t.Fatal(err)
	}
	s := newShelfOf(t, fabric.Options{Store: store, Holder: "here", Policy: upkeep.Default()})
	s.add("a", disk.SSD, 128<<20)
	s.fill("v", 4<<20, 1)
	if err := s.Remove(ctx, "v"); err != nil {
		t.Fatal(err)
	}
	if err := other.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s.scan()
	if waiting, _ := s.tasks(); waiting > 0 {
		t.Errorf("a scan after the pause leaves %d tasks", waiting)
	}
	s.fill("w", 4<<20, 1)
	if err := s.Remove(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	await(t, "the data is removed without a command", func() bool { s.seconds.Add(10); return s.used() < 1<<20 })
}

// A pause that was refused is none.
func TestRefusedPauseStopsNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newShelf(t, upkeep.Policy{})
	s.add("a", disk.SSD, 128<<20)
	if err := s.Pause(ctx, ""); err == nil {
		t.Fatal("a pause without a reason")
	}
	s.fill("v", 4<<20, 1)
	if err := s.Remove(ctx, "v"); err != nil {
		t.Fatal(err)
	}
	s.scan()
	if waiting, _ := s.tasks(); waiting > 0 {
		t.Errorf("%d tasks wait", waiting)
	}
}

// idleFront is a front without disks whose clock stands, so that it never scans again after its first scan.
func idleFront(t *testing.T, store *mem.Store) *fabric.Front {
	t.Helper()
	f, err := fabric.Open(context.Background(), fabric.Options{Store: store, Holder: "there", Now: func() time.Time { return time.Unix(1_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	await(t, "it has scanned", func() bool {
		s, err := f.Curation(context.Background())
		return err == nil && s.Scan > 0 && !s.Scanning
	})
	return f
}

// tasks is how many wait or are under way, and how many ended.
func (s *shelf) tasks() (waiting int, ended int64) {
	s.Helper()
	c, err := s.Curation(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	for _, b := range c.Tasks {
		waiting, ended = waiting+b.Waiting+b.UnderWay, ended+b.Done+b.Refused+b.Failed
	}
	return waiting, ended
}
