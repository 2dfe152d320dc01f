package volume

import (
	"testing"
	"time"

	"gleaner/cluster"
)

// A vDisk whose writer crashed is opened while upkeep moves or rebuilds one of its groups: neither waits for the other for ever.
// begin holds leasing and wants the group (recover); Move and Rebuild hold the group and want leasing (authority).
func TestOpenWhileUpkeep(t *testing.T) {
	ctx := t.Context()
	for _, what := range []string{"move", "rebuild"} {
		t.Run(what, func(t *testing.T) {
			s, p, _ := faultySpace(t, 3)
			v := faultyVolume(t, s, 2)
			if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
				t.Fatal(err)
			}
			v.stop() // the writer is killed: the group stays marked
			s = NewSpace(s.maps, p, s.o)
			if what == "rebuild" {
				if err := s.Drop(ctx, 1, "d1"); err != nil {
					t.Fatal(err)
				}
			}
			opened, done := make(chan error, 1), make(chan error, 1)
			open := func() {
				v2, err := s.Open(ctx, v.id)
				if err == nil {
					defer v2.Close()
				}
				opened <- err
			}
			if what == "move" {
				go func() {
					done <- s.Move(ctx, 1, "d0", func([]cluster.DiskID) (cluster.DiskID, bool) {
						go open()
						time.Sleep(100 * time.Millisecond) // a busy machine
						return "d2", true
					})
				}()
			} else {
				unlock := s.leasing.lock(v.id) // begin has it and asks the maps for the lease,
				go func() { done <- s.Rebuild(ctx, 1, "") }()
				time.Sleep(100 * time.Millisecond) // which takes a while;
				go func() {
					defer unlock()
					g := s.pin(1) // then recover locks the marked groups
					g.mu.Lock()
					opened <- g.load(ctx)
					g.mu.Unlock()
					s.unpin(g)
				}()
			}
			for _, c := range []chan error{opened, done} {
				select {
				case err := <-c:
					t.Log(err)
				case <-time.After(15 * time.Second):
					t.Fatal("Open and upkeep wait for each other")
				}
			}
		})
	}
}

// The same without any help: Rebuild and Open begin at the same time, on a store that takes a few milliseconds to give a lease, as one on a disk does.
func TestOpenRacesRebuild(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for i := range 200 {
		s, p, _ := faultySpace(t, 3)
		v := faultyVolume(t, s, 2)
		if err := v.WriteAt(ctx, make([]byte, 4096), 0, false); err != nil {
			t.Fatal(err)
		}
		v.stop()
		s = NewSpace(s.maps, p, s.o)
		if err := s.Drop(ctx, 1, "d1"); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 2)
		go func() { done <- s.Rebuild(ctx, 1, "") }()
		go func() {
			time.Sleep(time.Duration(i%40) * 5 * time.Microsecond)
			v2, err := s.Open(ctx, v.id)
			if err == nil {
				v2.stop()
			}
			done <- err
		}()
		for range 2 {
			select {
			case <-done:
			case <-time.After(15 * time.Second):
				t.Fatalf("try %d: Open and Rebuild wait for each other", i)
			}
		}
	}
}
