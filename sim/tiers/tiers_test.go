package tiers

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gleaner/input"
	"gleaner/sim/disks"
	"gleaner/sim/oltp"
)

// small is two SSDs for 100 groups and four HDDs for 400, in two copies.
func small() Config {
	c := Config{SSDs: 2, HDDs: 4, SSD: disks.SSD(), HDD: disks.HDD()}
	c.SSD.Capacity, c.HDD.Capacity = 100*Group, 200*Group
	return c
}

func store(t *testing.T, groups int64, share float64) *Store {
	t.Helper()
	s, err := New(small(), []int64{groups * Group}, share)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(s *Store, at time.Duration, group int64) time.Duration {
	return s.Serve(oltp.Request{At: at, Offset: group * Group, Size: 8192})
}

// slow lists the groups on HDDs.
func slow(s *Store) (out []int) {
	for i := range s.groups {
		if s.groups[i].slow {
			out = append(out, i)
		}
	}
	return out
}

func TestTheNewestBeginOnSSDs(t *testing.T) {
	s := store(t, 200, 0.75)
	if got := slow(s); len(got) != 125 || got[124] != 124 {
		t.Errorf("on HDDs: %v", got)
	}
	if ssd, hdd := s.Usage(); ssd != 0.75 || hdd != 125.0/400 {
		t.Errorf("usage %g and %g", ssd, hdd)
	}
}

func TestLatencyIsThatOfTheTier(t *testing.T) {
	s := store(t, 200, 0.75)
	if got, want := read(s, 0, 199), disks.SSD().Service(8192, false); got != want {
		t.Errorf("SSD: %v, want %v", got, want)
	}
	if got, want := read(s, 0, 0), disks.HDD().Service(8192, false); got != want {
		t.Errorf("HDD: %v, want %v", got, want)
	}
	if got, want := read(s, 0, 0), disks.HDD().Service(8192, false); got != want {
		t.Errorf("HDD, other copy: %v, want %v", got, want)
	}
	if got, want := read(s, 0, 0), 2*disks.HDD().Service(8192, false); got != want {
		t.Errorf("HDD, behind another: %v, want %v", got, want)
	}
	reads, writes := s.Operations()
	s.Serve(oltp.Request{Offset: 0, Size: 8192, Write: true})
	if r, w := s.Operations(); r != reads || w != writes+2 {
		t.Errorf("a write: %d reads and %d writes, want 0 and 2", r-reads, w-writes)
	}
	if s.SSDRead != 8192 {
		t.Errorf("%d bytes read from SSDs", s.SSDRead)
	}
}

func TestRepeatedAccessMovesUp(t *testing.T) {
	s := store(t, 200, 0.75)
	for i := range time.Duration(3) {
		read(s, i*time.Minute, 7)
		if i < 2 {
			read(s, i*time.Minute, 8)
		}
	}
	for i := range time.Duration(3) {
		read(s, i*11*time.Minute+3*time.Minute, 9)
	}
	s.Advance(time.Hour)
	if s.groups[7].slow || !s.groups[8].slow || !s.groups[9].slow || s.Moved != 1 {
		t.Errorf("on HDDs: 7 %v, 8 (twice) %v, 9 (seldom) %v; %d moved", s.groups[7].slow, s.groups[8].slow, s.groups[9].slow, s.Moved)
	}
}

func TestColdestMoveDown(t *testing.T) {
	s := store(t, 200, 0.75)
	for g := range int64(10) {
		read(s, time.Second, 125+g) // the oldest are not the coldest now
	}
	if n := s.Tier(0.15); n != 15 {
		t.Errorf("%d planned, want 15", n)
	}
	s.Advance(time.Minute)
	if ssd, _ := s.Usage(); math.Abs(ssd-0.60) > 1e-9 {
		t.Errorf("SSDs are %.2f full, want 0.60", ssd)
	}
	for i := range s.groups {
		if want := i < 125 || i >= 135 && i < 150; s.groups[i].slow != want {
			t.Errorf("group %d on HDDs: %v", i, !want)
		}
	}
}

func TestNothingMovesUpToFullSSDs(t *testing.T) {
	s := store(t, 200, 0.95)
	for i := range 3 {
		read(s, time.Duration(i)*time.Second, 7)
	}
	s.Advance(time.Hour)
	if s.Moved != 0 {
		t.Errorf("%d moved", s.Moved)
	}
	for i := range 3 { // it may ask again
		read(s, time.Hour+time.Duration(i)*time.Second, 7)
	}
	s.Tier(0.1)
	s.Advance(2 * time.Hour)
	if s.Moved < 10 {
		t.Errorf("%d moved", s.Moved)
	}
}

func TestMovesArePaced(t *testing.T) {
	s := store(t, 200, 0.75)
	s.Tier(0.75)
	s.Advance(time.Second)
	if s.Moved > PerSecond || s.Moved < PerSecond/2 {
		t.Errorf("%d moved in a second, want up to %d", s.Moved, PerSecond)
	}
}

// Whatever is served and planned, space adds up and every group is on two disks.
func TestSpaceAddsUp(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := store(t, 300, 0.75)
		at := time.Duration(0)
		for range 3000 {
			at += time.Duration(rng.Int64N(int64(time.Second)))
			s.Serve(oltp.Request{At: at, Offset: rng.Int64N(rng.Int64N(300)+1) * Group, Size: 8192, Write: rng.IntN(2) == 0})
			if rng.IntN(300) == 0 {
				s.Tier(rng.Float64() / 3)
			}
		}
		if s.Moved == 0 {
			t.Fatalf("seed %d: nothing moved", seed)
		}
		s.up.clear(s.groups)
		s.down.clear(s.groups)
		s.Advance(at + time.Hour) // what is on its way arrives
		used := map[bool][]int64{false: make([]int64, 2), true: make([]int64, 4)}
		for i := range s.groups {
			g := &s.groups[i]
			if g.on[0] == g.on[1] || g.moving {
				t.Fatalf("seed %d: group %d: %+v", seed, i, g)
			}
			for _, d := range g.on {
				used[g.slow][d] += Group
			}
		}
		for slow, tier := range map[bool]*tier{false: &s.ssd, true: &s.hdd} {
			for d := range tier.disks {
				if tier.disks[d].Used != used[slow][d] {
					t.Fatalf("seed %d: disk %d of HDDs %v: %d used, %d in groups", seed, d, slow, tier.disks[d].Used, used[slow][d])
				}
			}
		}
	}
}

func TestTooMuchData(t *testing.T) {
	if _, err := New(small(), []int64{501 * Group}, 0.75); err == nil || !input.Is(err) {
		t.Errorf("%v", err)
	}
}
