package judge

import (
	"testing"
	"time"
)

// TestVerdicts: each verdict, and which of two comes first.
func TestVerdicts(t *testing.T) {
	fine := Facts{Calls: 1000, Nodes: 100, Workers: 4096, Service: 5, Lag: 5, CPU: CPU{Cores: 2, Players: 0.3, Target: 0.3, Others: 0.1}}
	byOthers, byPlayers, byTarget := CPU{2, 0.3, 0.3, 1.4, 30, 20}, CPU{2, 1.5, 0.3, 0.2, 20, 25}, CPU{2, 0.3, 1.6, 0.1, 20, 20}
	nicely := CPU{2, 0.3, 0.3, 1.4, 0.1, 0.1}
	for _, tc := range []struct {
		name   string
		change func(*Facts)
		want   Verdict
		why    string
	}{
		{"all in order", func(f *Facts) {}, Held, ""},
		{"a full machine that harms nobody", func(f *Facts) { f.CPU = byOthers }, Held, ""},

		{"one call of a million does not fit", func(f *Facts) { f.Calls, f.Unsendable = 1e6, 1 }, Broken, "calls that could not be sent: 1"},
		{"and all others fail too", func(f *Facts) { f.Unsendable, f.Failed, f.FaultAt, f.TroubleAt = 1, 900, 9, 1 }, Broken, "calls that could not be sent: 1"},
		{"a call is missing", func(f *Facts) { f.Missing, f.FaultAt = 36, 30 }, Broken, "missing or never completed: 36"},
		{"refused unlike recorded", func(f *Facts) { f.Unexpected, f.FaultAt = 185, 1 }, Broken, "refused beyond what the recording has: 185"},
		{"refused, and then late", func(f *Facts) { f.Unexpected, f.FaultAt, f.Lag, f.TroubleAt = 9, 1, 900, 2 }, Broken, "refused beyond what the recording has: 9"},
		{"refused because late: a lease expired", func(f *Facts) { f.Unexpected, f.FaultAt, f.Lag, f.TroubleAt = 9, 2, 900, 1 }, Late, "a hundredth of calls were sent 900 ms late and more"},
		{"missing because replies were lost", func(f *Facts) { f.Missing, f.FaultAt, f.Failed, f.TroubleAt = 9, 2, 100, 1 }, GaveIn, "10.0% of calls had no reply, or were refused by an overloaded target"},
		{"one late call explains nothing", func(f *Facts) { f.Unexpected, f.FaultAt, f.TroubleAt = 9, 2, 1 }, Broken, "refused beyond what the recording has: 9"},

		{"late", func(f *Facts) { f.Lag, f.TroubleAt = 51, 1 }, Late, "a hundredth of calls were sent 51 ms late and more"},
		{"late and slow", func(f *Facts) { f.Lag, f.Service, f.TroubleAt = 1196, 2000, 1 }, Late, "a hundredth of calls were sent 1196 ms late and more"},
		{"late on a machine full of players", func(f *Facts) { f.Lag, f.CPU = 51, byPlayers }, Late, "a hundredth of calls were sent 51 ms late and more"},
		{"too few workers", func(f *Facts) { f.Lag, f.Busy = 51, 4096 }, Late, "all 4096 workers were busy, and the other calls 51 ms late"},
		{"workers kept busy by a slow target", func(f *Facts) { f.Lag, f.Busy, f.Service = 51, 4096, 2000 }, GaveIn, "the slowest hundredth of replies took 2000 ms and more"},
		{"no files left", func(f *Facts) { f.Starved, f.Failed, f.CPU = 20, 20, byOthers }, Late, "20 calls found no file or port left on this machine (ulimit -n)"},

		{"late because of others", func(f *Facts) { f.Lag, f.CPU = 51, byOthers }, Full,
			"a hundredth of calls were sent 51 ms late and more; of 2 cores the players used 0.3, the target 0.3 and others 1.4; the players waited 30.0 ms for a core each time, the target 20.0 ms"},
		{"late beside others that make room", func(f *Facts) { f.Lag, f.CPU = 510, nicely }, Late, "a hundredth of calls were sent 510 ms late and more"},
		{"slow beside others that make room", func(f *Facts) { f.Service, f.CPU = 2000, nicely }, GaveIn, "the slowest hundredth of replies took 2000 ms and more"},
		{"slow because of others", func(f *Facts) { f.Service, f.CPU = 2000, byOthers }, Full,
			"the slowest hundredth of replies took 2000 ms and more; of 2 cores the players used 0.3, the target 0.3 and others 1.4; the players waited 30.0 ms for a core each time, the target 20.0 ms"},
		{"slow because of the players", func(f *Facts) { f.Service, f.CPU = 2000, byPlayers }, Full,
			"the slowest hundredth of replies took 2000 ms and more; of 2 cores the players used 1.5, the target 0.3 and others 0.2; the players waited 20.0 ms for a core each time, the target 25.0 ms"},
		{"slow, and the machine is its own", func(f *Facts) { f.Service, f.CPU = 2000, byTarget }, GaveIn, "the slowest hundredth of replies took 2000 ms and more"},
		{"slow elsewhere", func(f *Facts) { f.Service, f.CPU = 2000, CPU{2, 1.8, 0, 0.2, 30, 0} }, GaveIn, "the slowest hundredth of replies took 2000 ms and more"},
		{"nobody measured the CPU", func(f *Facts) { f.Service, f.CPU = 2000, CPU{} }, GaveIn, "the slowest hundredth of replies took 2000 ms and more"},

		{"no files left elsewhere", func(f *Facts) { f.Starved, f.Failed, f.Elsewhere = 20, 20, []Machine{{"a", fine.CPU}} }, Late, "20 calls found no file or port left on a machine that played (ulimit -n)"},
		{"late because of others on another machine", func(f *Facts) { f.Lag, f.Elsewhere = 51, []Machine{{"a", fine.CPU}, {"b", byOthers}} }, Full,
			"a hundredth of calls were sent 51 ms late and more; on b, of 2 cores the players used 0.3, the target 0.3 and others 1.4; the players waited 30.0 ms for a core each time, the target 20.0 ms"},
		{"late, and no machine is full", func(f *Facts) { f.Lag, f.Elsewhere = 51, []Machine{{"a", fine.CPU}, {"b", byPlayers}} }, Late, "a hundredth of calls were sent 51 ms late and more"},

		{"no replies", func(f *Facts) { f.Failed = 11 }, GaveIn, "1.1% of calls had no reply, or were refused by an overloaded target"},
		{"few are without a reply", func(f *Facts) { f.Failed = 10 }, Held, ""},
		{"gives nodes up", func(f *Facts) { f.Dead = 2 }, GaveIn, "2 of 100 nodes were declared dead"},
		{"misses beats", func(f *Facts) { f.Missed = 20 }, GaveIn, "20 beats passed before the one before was answered"},

		{"interrupted", func(f *Facts) { f.Interrupted = true }, Cut, "it was interrupted"},
		{"too short", func(f *Facts) { f.Behind = 7 }, Cut, "it was too short to start all nodes: 7 had not when it ended"},
		{"within the warm-up", func(f *Facts) { f.Cold = true }, Cut, "it ended within the warm-up, before anything was measured"},
		{"interrupted after it gave in", func(f *Facts) { f.Interrupted, f.Failed = true, 500 }, GaveIn, "50.0% of calls had no reply, or were refused by an overloaded target"},
	} {
		f := fine
		tc.change(&f)
		if got, why := (Limits{}).Judge(f); got != tc.want || why != tc.why {
			t.Errorf("%s: %s: %s; want %s: %s", tc.name, got, why, tc.want, tc.why)
		}
	}
	if got, _ := (Limits{Lag: 300 * time.Millisecond}).Judge(Facts{Calls: 1, Lag: 299}); got != Held {
		t.Errorf("within its limit: %s", got)
	}
}

// TestUnexpected: refusals are explained by the share that was recorded.
func TestUnexpected(t *testing.T) {
	for _, tc := range []struct {
		refused, answered int
		recorded          float64
		want              int
	}{
		{0, 100, 0, 0}, {1, 100, 0, 1}, {100, 100, 1, 0}, {2, 10, 0.1, 0}, {10, 10, 0.1, 6}, {120, 1000, 0.1, 0}, {200, 1000, 0.1, 71},
	} {
		if got := Unexpected(tc.refused, tc.answered, tc.recorded); got != tc.want {
			t.Errorf("%d of %d refused, %g recorded: %d, want %d", tc.refused, tc.answered, tc.recorded, got, tc.want)
		}
	}
}
