package fabric_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gleaner/fabric"
)

func filled(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func mustWrite(t *testing.T, f *fabric.Front, name string, b byte, n int) {
	t.Helper()
	v := open(t, f, name)
	if err := v.WriteAt(context.Background(), filled(b, n), 0, false); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
}

// All data servers are started again, but for one whose disk is gone: what was flushed is on the two others.
func TestAllRestartOneNever(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRack(t, 3)
	f := r.front(2 * time.Second)
	const n = 4 << 20
	create(t, f, "v", n, 3)
	v := open(t, f, "v")
	defer v.Close()
	if err := v.WriteAt(ctx, filled('A', n), 0, false); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := v.WriteAt(ctx, filled('B', 4096), 0, false); err != nil { // not flushed
		t.Fatal(err)
	}
	for _, s := range r.servers {
		r.halt(s)
	}
	time.Sleep(3 * time.Second)
	await(t, "all away", func() bool { return onTier(t, f, "away") == 3 })
	if s, err := f.Stat(ctx, "v"); err != nil || s.States["out of reach"] != 1 {
		t.Errorf("with all servers away: %+v, %v", s, err)
	}
	r.start(r.servers[0])
	r.start(r.servers[1])
	await(t, "two back", func() bool { return onTier(t, f, "ssd") == 2 })
	time.Sleep(5 * time.Second) // all of them were away for longer than the grace time
	got := make([]byte, n)
	if err := v.ReadAt(ctx, got, 0); err != nil {
		t.Errorf("what was flushed cannot be read, though two of three disks that have it are here: %v", err)
	}
}

// Groups of a disk that is here are gone: replicas must be rebuilt.
func TestGroupsDeleted(t *testing.T) {
	t.Parallel()
	r := newRack(t, 4)
	f := r.front(2 * time.Second)
	const n = 16 << 20
	create(t, f, "v", n, 3)
	mustWrite(t, f, "v", 'A', n)
	for _, s := range r.servers[:1] {
		r.halt(s)
		os.RemoveAll(s.dir + "/groups")
		os.Mkdir(s.dir+"/groups", 0o700)
		r.start(s)
	}
	for range 8 {
		time.Sleep(4 * time.Second)
		if whole(t, f) {
			return
		}
	}
	rep, _ := f.Check(context.Background(), func(int, int) {})
	t.Errorf("replicas that a disk lost are not rebuilt: %d missing, %v", rep.Missing, rep.Errors)
}

// A copy of a disk at another server.
func TestDiskTwice(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRack(t, 4)
	f := r.front(time.Hour)
	const n = 8 << 20
	create(t, f, "v", n, 3)
	mustWrite(t, f, "v", 'A', n)
	r.halt(r.servers[3])
	os.RemoveAll(r.servers[3].dir)
	r.halt(r.servers[0])
	if out, err := exec.Command("cp", "-a", r.servers[0].dir, r.servers[3].dir).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	r.start(r.servers[0])
	time.Sleep(3 * time.Second)
	mustWrite(t, f, "v", 'B', n)
	await(t, "what server 3 had is made elsewhere", func() bool { return whole(t, f) })
	r.start(r.servers[3]) // has the same disk as server 0, but old
	time.Sleep(3 * time.Second)
	r.halt(r.servers[1])
	r.halt(r.servers[2])
	time.Sleep(3 * time.Second)
	v := open(t, f, "v")
	defer v.Close()
	got := make([]byte, n)
	if err := v.ReadAt(ctx, got, 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("bytes: %d old, %d new", bytes.Count(got, []byte("A")), bytes.Count(got, []byte("B")))
	if bytes.Contains(got, []byte("A")) {
		rep, err := f.Check(ctx, func(int, int) {})
		t.Errorf("stale data were read; check: %+v %v", rep, err)
	}
}

// A snapshot that was answered keeps its name, whoever makes a disk of that name at the same time.
func TestSnapshotAgainstCreate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFront(t, 1)
	both, lost := 0, 0
	for i := range rounds() {
		v, x := fmt.Sprintf("v%d", i), fmt.Sprintf("x%d", i)
		create(t, f, v, 1<<20, 1)
		mustWrite(t, f, v, 'A', 4096)
		var wg sync.WaitGroup
		var a, b error
		wg.Go(func() { a = f.Snapshot(ctx, v, x) })
		wg.Go(func() { time.Sleep(time.Duration(i%50) * 200 * time.Microsecond); _, b = f.Create(ctx, x, 1<<20, 1) })
		wg.Wait()
		if a == nil && b == nil {
			both++
		}
		if a == nil {
			s, err := f.Stat(ctx, x)
			if err != nil || !s.Snapshot {
				lost++
			}
		}
	}
	if lost > 0 || both > 0 {
		t.Errorf("%d times both were told that they have the name; %d snapshots that were answered are not there", both, lost)
	}
}

func TestSnapshotAgainstRemove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFront(t, 1)
	for i := range rounds() {
		v, x := fmt.Sprintf("v%d", i), fmt.Sprintf("x%d", i)
		create(t, f, v, 1<<20, 1)
		mustWrite(t, f, v, 'A', 4096)
		var wg sync.WaitGroup
		var a, b error
		wg.Go(func() { jitter(i % 7); a = f.Snapshot(ctx, v, x) })
		wg.Go(func() { jitter(i % 11); b = f.Remove(ctx, v) })
		wg.Wait()
		if a != nil {
			continue
		}
		if b != nil {
			_ = f.Remove(ctx, v)
		}
		if err := f.Tidy(ctx); err != nil {
			t.Errorf("tidy: %v", err)
		}
		if err := begins(f, x, 'A'); err != nil {
			t.Errorf("%d: a snapshot that was answered: %v (rm said %v)", i, err, b)
		}
	}
}

func TestCloneAgainstRemove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFront(t, 1)
	for i := range rounds() {
		v, x, c := fmt.Sprintf("v%d", i), fmt.Sprintf("x%d", i), fmt.Sprintf("c%d", i)
		create(t, f, v, 1<<20, 1)
		mustWrite(t, f, v, 'A', 4096)
		if err := f.Snapshot(ctx, v, x); err != nil {
			t.Fatal(err)
		}
		if err := f.Remove(ctx, v); err != nil {
			t.Fatal(err)
		}
		if err := f.Tidy(ctx); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var a, b error
		wg.Go(func() { jitter(i % 7); a = f.Clone(ctx, x, c) })
		wg.Go(func() { jitter(i % 11); b = f.Remove(ctx, x); f.Tidy(ctx) })
		wg.Wait()
		_ = f.Tidy(ctx)
		if a != nil {
			continue
		}
		if err := begins(f, c, 'A'); err != nil {
			t.Errorf("%d: a clone that was answered: %v (rm said %v)", i, err, b)
		}
	}
}

func TestOpenAgainstRemove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFront(t, 1)
	bad := 0
	for i := range rounds() {
		v := fmt.Sprintf("v%d", i)
		create(t, f, v, 1<<20, 1)
		mustWrite(t, f, v, 'A', 4096)
		var wg sync.WaitGroup
		var b error
		wg.Go(func() { jitter(i % 11); b = f.Remove(ctx, v) })
		jitter(i % 7)
		d, err := f.Exports().Open(ctx, v)
		wg.Wait()
		if err == nil && b == nil {
			bad++
			werr := d.WriteAt(ctx, filled('C', 4096), 0, true)
			if bad == 1 {
				t.Logf("removed while open; write: %v", werr)
			}
		}
		if err == nil {
			if err := d.Close(); err != nil {
				t.Logf("close: %v", err)
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d were removed though somebody had just opened them", bad)
	}
}

// jitter spins, since a sleep is too coarse.
func jitter(n int) {
	for end := time.Now().Add(time.Duration(n) * 30 * time.Microsecond); time.Now().Before(end); {
	}
}

// rounds is how often two things are tried at the same time.
func rounds() int {
	if os.Getenv("GLEANER_LONG") != "" {
		return 1000
	}
	return 50
}

// onTier counts the replicas of v on a tier.
func onTier(t *testing.T, f *fabric.Front, tier string) int {
	t.Helper()
	s, err := f.Stat(t.Context(), "v")
	if err != nil {
		t.Fatal(err)
	}
	return s.Tiers[tier]
}

// Bytes that rot on one disk are found by a check, and made anew from another replica.
func TestRotIsMended(t *testing.T) {
	t.Parallel()
	r := newRack(t, 3)
	f := r.front(time.Hour)
	create(t, f, "v", 4<<20, 2)
	mustWrite(t, f, "v", 'A', 4<<20)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(r.servers[0].dir), "disk*", "groups", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	time.Sleep(2 * time.Second) // what is in the log moves to the group
	rot(t, files[0])
	report, err := f.Check(t.Context(), func(int, int) {})
	if err != nil || report.Corrupt != 1 || len(report.Damaged) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	await(t, "the damaged replica is made anew", func() bool { return whole(t, f) })
}

// begins says whether a vDisk can be opened and begins with a byte.
func begins(f *fabric.Front, name string, want byte) error {
	d, err := f.Exports().Open(context.Background(), name)
	if err != nil {
		return err
	}
	defer d.Close()
	got := make([]byte, 1)
	if err := d.ReadAt(context.Background(), got, 0); err != nil {
		return err
	}
	if got[0] != want {
		return fmt.Errorf("begins with %q", got[0])
	}
	return nil
}
