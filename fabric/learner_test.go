package fabric_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/fabric/upkeep"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// movingPays is a learning state in which moving data down was good whatever the fabric looked like.
const movingPays = `{"version": VERSION, "features": ["ssd", "iops", "riops", "wiops"], "time_of_day": false, "decisions": 400,
"scales": [{"mean": 50, "variance": 1, "seen": 400}, {"mean": 0, "variance": 1, "seen": 400}, {"mean": 0, "variance": 1, "seen": 400}, {"mean": 0, "variance": 1, "seen": 400}],
"reward": {"mean": -5, "variance": 1, "seen": 400}, "wait": [0, 0, 0, 0, -5], "run": [0, 0, 0, 0, 5],
"safety": {"until": "0001-01-01T00:00:00Z", "learned": [], "thresholds": []}}`

var learnedKey = kv.Key{Part: []byte("tier-down"), Row: []byte{}}

// learned is a store with a learning state of a version.
func learned(t *testing.T, version string) (kv.Store, kv.LooseTable) {
	t.Helper()
	store := mem.New()
	rows, err := store.LooseTable(t.Context(), "learning")
	if err == nil {
		err = rows.Put(t.Context(), kv.Record{Key: learnedKey, Value: []byte(strings.Replace(movingPays, "VERSION", version, 1))})
	}
	if err != nil {
		t.Fatal(err)
	}
	return store, rows
}

var learns = upkeep.Policy{F: 0.9, D: 0.95, H: 0.2, M: 1, S: 1, H1: 1000, H2: 1000, Floor: 0.25, Ceiling: 0.25, Learn: 1}

// Who has learned that moving cold data down pays does so long before a threshold is passed, and keeps what it learns from that.
func TestLearnedWhenToMoveDown(t *testing.T) {
	t.Parallel()
	store, rows := learned(t, "1")
	s := newShelfOf(t, fabric.Options{Store: store, Policy: learns})
	for _, name := range []string{"a", "b"} {
		s.add(name+"-ssd", disk.SSD, 128<<20)
		s.add(name+"-hdd", disk.HDD, 256<<20)
	}
	data := s.fill("v", 32<<20, 2)
	await(t, "cold groups are on the slow tier", func() bool {
		s.seconds.Add(30)
		st, err := s.Stat(context.Background(), "v")
		return err == nil && st.Tiers["hdd"] > 0
	})
	if s.share("a-ssd") > 0.5 {
		t.Errorf("ssd is %.0f%% full: a threshold may have moved it", 100*s.share("a-ssd"))
	}
	s.holds("v", data)
	c, err := s.Curation(context.Background())
	if err != nil || c.Learning == nil || c.Learning.Runs == 0 || c.Learning.Decisions <= 400 {
		t.Errorf("%+v, %v", c.Learning, err)
	}
	if r := c.Learning.Recent; len(r) == 0 || len(r) > 200 || r[len(r)-1] != c.Learning.Decision || !slices.ContainsFunc(r, func(d fabric.Decision) bool { return d.Run }) {
		t.Errorf("%d decisions are remembered", len(r))
	}
	if c.Served.Reads == 0 || c.Served.Writes == 0 || c.Served.WriteSeconds <= 0 {
		t.Errorf("%+v", c.Served)
	}
	var kept struct{ Decisions int }
	r, err := rows.Get(t.Context(), learnedKey)
	if err == nil {
		err = json.Unmarshal(r.Value, &kept)
	}
	if err != nil || kept.Decisions <= 400 {
		t.Errorf("%d decisions are kept, %v", kept.Decisions, err)
	}
}

func TestLearningStateOfAnotherVersion(t *testing.T) {
	store, rows := learned(t, "7")
	before, err := rows.Get(t.Context(), learnedKey)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fabric.Open(t.Context(), fabric.Options{Store: store, Policy: learns})
	var wrong *input.Error
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "version") {
		t.Errorf("%v", err)
	}
	if after, err := rows.Get(t.Context(), learnedKey); err != nil || string(after.Value) != string(before.Value) {
		t.Errorf("it was changed, %v", err)
	}
}
