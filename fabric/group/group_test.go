package group_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
)

// A group loses a disk, is rebuilt on another, and dies.
func TestLife(t *testing.T) {
	g := group.New(7, 3, []cluster.DiskID{"a", "b", "c"})
	step := func(next group.Group, err error, want group.State, generation uint64) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if g = next; g.State() != want || g.Generation != generation {
			t.Fatalf("%s of generation %d, want %s of %d", g.State(), g.Generation, want, generation)
		}
	}
	step(g, nil, group.Whole, 1)
	next, err := g.Drop("b")
	step(next, err, group.Degraded, 2)
	next, err = g.Rebuild("d")
	step(next, err, group.Repairing, 2)
	next, err = g.GiveUp()
	step(next, err, group.Degraded, 2)
	next, err = g.Rebuild("b") // it came back, stale
	step(next, err, group.Repairing, 2)
	next, err = g.Built()
	step(next, err, group.Whole, 3)
	if !slices.Equal(g.Good, []cluster.DiskID{"a", "c", "b"}) {
		t.Errorf("replicas on %v", g.Good)
	}
	next, err = g.Renew()
	step(next, err, group.Whole, 4)
	next, err = g.Kill()
	step(next, err, group.Dead, 4)
	for name, err := range map[string]error{
		"drop":    second(g.Drop("a")),
		"rebuild": second(g.Rebuild("e")),
		"built":   second(g.Built()),
	} {
		if err == nil {
			t.Errorf("%s of a dead group", name)
		}
	}
	for _, d := range []cluster.DiskID{"a", "b", "c"} {
		next, err = g.Forget(d)
		step(next, err, group.Dead, 4)
	}
	if len(g.Good) != 0 {
		t.Errorf("replicas on %v", g.Good)
	}
}

// A replica goes to another disk and keeps its place in the list.
func TestMove(t *testing.T) {
	g := group.New(7, 2, []cluster.DiskID{"a", "b"})
	moving, err := g.Move("c")
	if err != nil || moving.State() != group.Moving || moving.Generation != 1 {
		t.Fatalf("%+v, %v", moving, err)
	}
	moved, err := moving.Moved("a")
	if err != nil || moved.State() != group.Whole || moved.Generation != 2 || !slices.Equal(moved.Good, []cluster.DiskID{"c", "b"}) {
		t.Errorf("%+v, %v", moved, err)
	}
	if back, err := moving.GiveUp(); err != nil || back.State() != group.Whole || !slices.Equal(back.Good, g.Good) {
		t.Errorf("%+v, %v", back, err)
	}
	degraded, err := moving.Drop("b") // a write has not reached it meanwhile: now it is a repair
	if err != nil || degraded.State() != group.Repairing {
		t.Errorf("%+v, %v", degraded, err)
	}
	for what, tc := range map[string]struct{ got, want error }{
		"to where it is":       {second(g.Move("b")), group.ErrMember},
		"from where it is not": {second(moving.Moved("z")), group.ErrAbsent},
		"twice at once":        {second(moving.Move("d")), group.ErrState},
		"of nothing begun":     {second(g.Moved("a")), group.ErrState},
		"of a degraded group":  {second(degraded.Moved("a")), group.ErrState},
		"built":                {second(moving.Built()), group.ErrState},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
}

func TestTheLastReplicaStays(t *testing.T) {
	g := group.New(7, 3, []cluster.DiskID{"a"})
	if _, err := g.Drop("a"); !errors.Is(err, group.ErrLast) {
		t.Error(err)
	}
	if _, err := g.Rebuild("a"); !errors.Is(err, group.ErrMember) {
		t.Error(err)
	}
	if _, err := g.Drop("z"); !errors.Is(err, group.ErrAbsent) {
		t.Error(err)
	}
	if _, err := g.Forget("a"); !errors.Is(err, group.ErrState) {
		t.Error(err)
	}
}

// Whatever happens: a good replica stays, or as many shards as are needed, none is there twice, the generation changes
// whenever the good ones do and never falls, and what was returned before is not changed. A disk keeps its shard.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disks := []cluster.DiskID{"a", "b", "c", "d", "e"}
		g := group.New(1, 3, disks[:rapid.IntRange(1, 3).Draw(t, "replicas")])
		if rapid.Bool().Draw(t, "coded") {
			g = group.New(1, 4, disks[:4])
			g.Data, g.Length, g.Shards = 2, 4096, []int{0, 1, 2, 3}
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			d := rapid.SampledFrom(disks).Draw(t, "disk")
			was, wasGood, wasShards := g, slices.Clone(g.Good), slices.Clone(g.Shards)
			next, err := g, error(nil)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				next, err = g.Drop(d)
			case 1:
				next, err = g.Rebuild(d)
			case 2:
				next, err = g.Built()
			case 3:
				next, err = g.GiveUp()
			case 4:
				next, err = g.Move(d)
			case 5:
				next, err = g.Moved(d)
			}
			if !slices.Equal(was.Good, wasGood) || !slices.Equal(was.Shards, wasShards) {
				t.Fatal("the group before was changed")
			}
			if err != nil {
				continue
			}
			g = next
			sorted := slices.Sorted(slices.Values(g.Good))
			switch {
			case len(g.Good) < max(1, g.Data) || len(slices.Compact(sorted)) != len(g.Good):
				t.Fatalf("replicas on %v", g.Good)
			case slices.Equal(g.Good, wasGood) != (g.Generation == was.Generation) || g.Generation < was.Generation:
				t.Fatalf("%v at %d, then %v at %d", wasGood, was.Generation, g.Good, g.Generation)
			}
			if g.Data > 0 {
				keepShards(t, was, g)
			}
		}
	})
}

// keepShards checks that each disk has one shard, that no two have the same, and that each has the one it had.
func keepShards(t *rapid.T, was, now group.Group) {
	if len(now.Shards) != len(now.Good) || len(slices.Compact(slices.Sorted(slices.Values(now.Shards)))) != len(now.Good) {
		t.Fatalf("shards %v on %v", now.Shards, now.Good)
	}
	for i, d := range now.Good {
		if before := slices.Index(was.Good, d); before >= 0 && was.Shards[before] != now.Shards[i] || now.Shards[i] >= now.Wanted {
			t.Fatalf("disk %s has shard %d; before, shards were %v on %v", d, now.Shards[i], was.Shards, was.Good)
		}
	}
}

// A packed group admits tenants until its record is full; another group admits none.
func TestAdmit(t *testing.T) {
	g := group.New(7, 1, []cluster.DiskID{"a"})
	if _, err := g.Admit(group.ExtentID{Group: 1}); !errors.Is(err, group.ErrState) {
		t.Errorf("not packed: %v", err)
	}
	g.Tenants = []group.ExtentID{{Group: 1}}
	var err error
	for n := range group.MaxTenants {
		if g, err = g.Admit(group.ExtentID{Group: disk.GroupID(1 + n)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.Tenants) != group.MaxTenants {
		t.Errorf("%d tenants", len(g.Tenants))
	}
	if _, err := g.Admit(group.ExtentID{Group: 999}); !errors.Is(err, group.ErrFull) {
		t.Error(err)
	}
	dead, _ := g.Kill()
	if _, err := dead.Admit(group.ExtentID{Group: 1}); !errors.Is(err, group.ErrDead) {
		t.Error(err)
	}
}

func second(_ group.Group, err error) error { return err }
