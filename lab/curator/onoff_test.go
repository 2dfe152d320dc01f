package curator

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"gleaner/sim/datacenter"
)

func quiet(int, int) {}

// Upkeep lowers latency and gives back the space of what was destroyed, and the same seed gives the same table.
func TestUpkeepLowersLatencyAndSpace(t *testing.T) {
	size := OnOffSize{Smaller: 256, Seeds: 1, done: quiet}
	all, err := OnOff(context.Background(), size)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		on, off := s.On[0], s.Off[0]
		if on.LatencyMS > 0.8*off.LatencyMS || on.ByWorkload[2] > 0.8*off.ByWorkload[2] {
			t.Errorf("1/%.0f of the requests: %.2f ms with upkeep, %.2f without", s.Slower, on.LatencyMS, off.LatencyMS)
		}
		// Two copies of three databases with their logs.
		if want := 2 * (224 + 448 + 1792 + 3*16) * 954.0 / 1024 / 1024 * 1.099511627776; math.Abs(off.EndTB/want-1) > 0.02 || on.EndTB > off.EndTB/2 || on.MeanTB > off.MeanTB {
			t.Errorf("in the end %.2f TB are in use with upkeep, and %.2f without, of %.2f that were written; on average %.2f and %.2f", on.EndTB, off.EndTB, want, on.MeanTB, off.MeanTB)
		}
	}
	again, err := OnOff(context.Background(), size)
	if err != nil {
		t.Fatal(err)
	}
	var one, two strings.Builder
	if all.Table().WriteText(&one); again.Table().WriteText(&two) != nil || one.String() != two.String() {
		t.Errorf("%s\nthen\n%s", one.String(), two.String())
	}
	for _, row := range all.Table().Rows {
		if len(row) != len(all.Table().Columns) {
			t.Errorf("%q", row)
		}
	}
	var svg strings.Builder
	if err := all.Figure().WriteSVG(&svg); err != nil {
		t.Error(err)
	}
}

// In three days of reimages and of vDisks that come and go, everything that waits is done in every half of a day, and nothing is lost.
func TestNoBacklogGrows(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to simulate three days; it takes a minute")
	}
	days, err := ThreeDays(context.Background(), datacenter.FewestServers, wavy)
	if err != nil {
		t.Fatal(err)
	}
	var all HalfDay
	for i, h := range days.Halves {
		all.Reimages, all.Rebuilt, all.Down = all.Reimages+h.Reimages, all.Rebuilt+h.Rebuilt, all.Down+h.Down
		if h.Least > 0 || h.Lost > 0 || h.Gone < 10 {
			t.Errorf("half day %d: %+v", i, h)
		}
	}
	if all.Reimages == 0 || all.Rebuilt == 0 || all.Down == 0 || len(days.Halves) != 6 {
		t.Errorf("%+v", days)
	}
	if table := days.Table(); len(table.Rows) != 6 || len(table.Rows[0]) != len(table.Columns) {
		t.Errorf("%+v", table)
	}
}
