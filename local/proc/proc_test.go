package proc

import (
	"runtime"
	"testing"
	"testing/fstest"
)

const (
	statBefore = "cpu  100 0 50 800 50 0 0 0 10 0\ncpu0 100 0 50 800 50 0 0 0 10 0\nintr 5\n"
	statAfter  = "cpu  150 0 60 840 90 0 0 60 15 0\ncpu0 150 0 60 840 90 0 0 60 15 0\nintr 6\n"
	meminfo    = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\nCached:          500 kB\n"
)

func TestMeter(t *testing.T) {
	proc := fstest.MapFS{"stat": {Data: []byte(statBefore)}, "meminfo": {Data: []byte(meminfo)}}
	m, err := open(proc)
	if err != nil {
		t.Fatal(err)
	}
	proc["stat"] = &fstest.MapFile{Data: []byte(statAfter)}
	cpu, mem, err := m.Read()
	// Of 200 ticks 40 were idle and 40 waited for disks; guests are not counted twice.
	if err != nil || cpu != 0.6 || mem != 0.4 {
		t.Errorf("cpu %v mem %v, %v, want 0.6 and 0.4", cpu, mem, err)
	}
	if cpu, _, err := m.Read(); err != nil || cpu != 0 {
		t.Errorf("at the same tick: cpu %v, %v", cpu, err)
	}
	proc["stat"] = &fstest.MapFile{Data: []byte("cpu  160 0 60 840 80 0 0 60\n")}
	if cpu, _, err := m.Read(); err != nil || cpu != 0 {
		t.Errorf("after a step back: cpu %v, %v", cpu, err)
	}
}

// A guard reads it many times a second.
func TestParseStatAllocatesNothing(t *testing.T) {
	stat := []byte(statAfter)
	if n := testing.AllocsPerRun(100, func() {
		if c, err := ParseStat(stat); err != nil || c != (CPU{Used: 210, Stolen: 60, Idle: 930}) {
			t.Errorf("%+v, %v", c, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMeterRefuses(t *testing.T) {
	for _, tc := range []struct{ stat, meminfo string }{
		{"", meminfo}, {"cpu 1 2 3\n", meminfo}, {"cpu0 1 2 3 4\n", meminfo}, {"cpu 1 2 x 4\n", meminfo}, {"cpu 1 2 -3 4\n", meminfo},
		{statBefore, ""}, {statBefore, "MemTotal: 0 kB\nMemAvailable: 0 kB\n"}, {statBefore, "MemTotal: 10 kB\nMemFree: 5 kB\n"},
		{statBefore, "MemTotal: ten kB\nMemAvailable: 5 kB\n"},
	} {
		if _, err := open(fstest.MapFS{"stat": {Data: []byte(tc.stat)}, "meminfo": {Data: []byte(tc.meminfo)}}); err == nil {
			t.Errorf("%q and %q were taken", tc.stat, tc.meminfo)
		}
	}
	if _, err := open(fstest.MapFS{}); err == nil {
		t.Error("an empty /proc was taken")
	}
}

func TestThisMachine(t *testing.T) {
	m, err := Open()
	if runtime.GOOS != "linux" {
		if err == nil {
			t.Error("opened without /proc")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if cpu, mem, err := m.Read(); err != nil || cpu < 0 || cpu > 1 || mem <= 0 || mem >= 1 {
		t.Errorf("cpu %v mem %v, %v", cpu, mem, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statBefore), []byte(statAfter))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		before, err := ParseStat(a)
		if err != nil {
			return
		}
		after, err := ParseStat(b)
		if err != nil {
			return
		}
		if share := after.since(before); !(share >= 0 && share <= 1) || after.Idle > after.Total() {
			t.Fatalf("share %v from %v and %v", share, before, after)
		}
	})
}

func FuzzParseMeminfo(f *testing.F) {
	f.Add([]byte(meminfo))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := ParseMemory(text); err == nil && !(m.used() >= 0 && m.used() <= 1) {
			t.Fatalf("used %v of %v", m.used(), m)
		}
	})
}
