package tiering_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/tiering"
)

// full is how full a tier may be made.
const full = 0.75

// TestScenarios decides what comes up. Commands:
//
//	tiers          a line each: its name, its quota and what is used, in groups
//	up now=PERIOD  a line for each group: its id, the periods it was read in, the tiers of its replicas (on disks a, b, …), "degraded"
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var tiers []tiering.Tier
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var groups []tiering.Group
			if d.Cmd == "tiers" {
				tiers = nil
			}
			for line := range strings.Lines(d.Input) {
				words := strings.Fields(line)
				switch d.Cmd {
				case "tiers":
					tiers = append(tiers, tiering.Tier{Name: cluster.Tier(words[0]), Quota: inGroups(t, words[1]), Used: inGroups(t, words[2])})
				case "up":
					groups = append(groups, readGroup(t, words))
				}
			}
			if d.Cmd == "tiers" {
				return ""
			}
			var now int
			d.ScanArgs(t, "now", &now)
			var out strings.Builder
			for _, m := range tiering.Up(groups, tiers, tiering.Period(now), full) {
				fmt.Fprintf(&out, "group %d from %s to %s: %s\n", m.Group, m.From, m.To, m.Why)
			}
			return out.String()
		})
	})
}

func inGroups(t *testing.T, word string) cluster.Bytes {
	return cluster.Bytes(number(t, word)) * disk.GroupSize
}

func number(t *testing.T, word string) int {
	t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func readGroup(t *testing.T, words []string) tiering.Group {
	g := tiering.Group{ID: disk.GroupID(number(t, words[0])), Whole: len(words) < 4}
	for _, p := range strings.Split(words[1], ",") {
		g.Access = g.Access.And(tiering.ReadIn(tiering.Period(number(t, p))))
	}
	for i, tier := range strings.Split(words[2], ",") {
		g.On = append(g.On, tiering.Replica{Disk: cluster.DiskID('a' + rune(i)), Tier: cluster.Tier(tier)})
	}
	return g
}

// However reads and writes are put together, in any order and some of them twice, an access says the same as a list of all of them.
func TestAccess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Custom(func(t *rapid.T) tiering.Period { return tiering.Period(rapid.IntRange(1, 200).Draw(t, "period")) })
		reads, writes := rapid.SliceOf(period).Draw(t, "reads"), rapid.SliceOf(period).Draw(t, "writes")
		var parts []tiering.Access
		var lastRead, lastWritten tiering.Period
		for _, p := range reads {
			parts, lastRead = append(parts, tiering.ReadIn(p)), max(lastRead, p)
		}
		for _, p := range writes {
			parts, lastWritten = append(parts, tiering.WrittenIn(p)), max(lastWritten, p)
		}
		parts = rapid.Permutation(parts).Draw(t, "order")
		cut := rapid.IntRange(0, len(parts)).Draw(t, "cut")
		a := all(parts[:cut]).And(all(parts[cut/2:]))
		now := max(lastRead, period.Draw(t, "now"))
		late := map[tiering.Period]bool{}
		for _, p := range reads {
			if now-p < tiering.Remembered {
				late[p] = true
			}
		}
		if a.Read != lastRead || a.Written != lastWritten || a.ReadOfLate(now) != len(late) || a.Hot(now) != (len(late) >= 3) {
			t.Fatalf("%+v at %d, of reads %v and writes %v", a, now, reads, writes)
		}
	})
}

func all(parts []tiering.Access) (a tiering.Access) {
	for _, p := range parts {
		a = a.And(p)
	}
	return a
}

// Whatever is hot: only whole groups move, each replica once and to a faster tier, and no tier is filled above its limit.
func TestUp(t *testing.T) {
	names := []cluster.Tier{"ssd", "hdd", "cold"}
	rapid.Check(t, func(t *rapid.T) {
		var tiers []tiering.Tier
		for _, name := range names {
			quota := rapid.IntRange(0, 20).Draw(t, "quota")
			used := rapid.IntRange(0, quota).Draw(t, "used")
			tiers = append(tiers, tiering.Tier{Name: name, Quota: cluster.Bytes(quota) * disk.GroupSize, Used: cluster.Bytes(used) * disk.GroupSize})
		}
		groups := map[disk.GroupID]tiering.Group{}
		for id := range disk.GroupID(rapid.IntRange(0, 12).Draw(t, "groups")) {
			g := tiering.Group{ID: id, Whole: rapid.Bool().Draw(t, "whole"), Access: tiering.Access{Read: 500, Reads: rapid.Uint64().Draw(t, "reads")}}
			for i := range rapid.IntRange(1, 3).Draw(t, "replicas") {
				g.On = append(g.On, tiering.Replica{Disk: cluster.DiskID(fmt.Sprint(id, "-", i)), Tier: rapid.SampledFrom(names).Draw(t, "tier")})
			}
			groups[id] = g
		}
		more, moved := map[cluster.Tier]cluster.Bytes{}, map[cluster.DiskID]bool{}
		for _, m := range tiering.Up(slices.Collect(maps.Values(groups)), tiers, 510, full) {
			g := groups[m.Group]
			i := slices.IndexFunc(g.On, func(r tiering.Replica) bool { return r.Disk == m.From })
			if i < 0 || moved[m.From] || !g.Whole || !g.Access.Hot(510) || slices.Index(names, m.To) >= slices.Index(names, g.On[i].Tier) {
				t.Fatalf("%+v of %+v", m, g)
			}
			moved[m.From] = true
			more[m.To] += disk.GroupSize
		}
		for _, tier := range tiers {
			if n := more[tier.Name]; n > 0 && float64(tier.Used+n) > full*float64(tier.Quota) {
				t.Fatalf("%d bytes more on %+v", n, tier)
			}
		}
	})
}

func TestPeriods(t *testing.T) {
	at := time.Date(2026, time.November, 16, 12, 0, 9, 999, time.UTC)
	if got := tiering.PeriodOf(at).Time(); got != at.Truncate(tiering.PeriodLength) {
		t.Error(got)
	}
	if got := tiering.Period(0).Time(); !got.IsZero() {
		t.Error(got)
	}
}
