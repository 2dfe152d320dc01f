package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/cluster"
)

// A machine is a /proc of a test's making.
type machine struct {
	dir       string
	busy      time.Duration
	available cluster.Bytes // of 8 GiB
}

func (m *machine) write(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{
		"stat":    fmt.Sprintf("cpu  %d 0 0 1000000 0 0 0 0 0 0\n", m.busy/(10*time.Millisecond)),
		"meminfo": fmt.Sprintf("MemTotal: 8388608 kB\nMemAvailable: %d kB\n", m.available/1024),
	} {
		next := filepath.Join(m.dir, "next")
		if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(m.dir, name)); err != nil { // a file is never read half written
			t.Fatal(err)
		}
	}
}

// The primary's CPU is what is used and not harvested. A rise counts once four looks agree,
// an instant of work does not, and a fall counts with the next mean.
func TestMeter(t *testing.T) {
	fake := machine{dir: t.TempDir(), available: 6 * cluster.GB}
	m := meter{proc: fake.dir, most: 4 * cluster.Core}
	var at time.Time
	var harvested time.Duration
	var got cluster.Resources
	pass := func(looks int, primary, harvest float64) {
		for range looks {
			const every = 100 * time.Millisecond
			at = at.Add(every)
			fake.busy += time.Duration((primary + harvest) * float64(every))
			harvested += time.Duration(harvest * float64(every))
			fake.write(t)
			var err error
			if got, err = m.look(at, harvested, cluster.GB); err != nil {
				t.Fatal(err)
			}
		}
	}
	at = time.Unix(1000, 0)
	pass(11, 1, 2)
	if !m.ready || got != (cluster.Resources{CPU: 1000, Memory: cluster.GB}) {
		t.Errorf("beside two harvested cores: %v", got)
	}
	pass(3, 3, 1)
	if got.CPU != 1000 {
		t.Errorf("after an instant: %v", got)
	}
	pass(1, 3, 1)
	if got.CPU != 3000 {
		t.Errorf("after a rise: %v", got)
	}
	pass(26, 0, 3)
	if got.CPU != 0 {
		t.Errorf("after a fall: %v", got)
	}
	pass(10, 9, 0)
	if got.CPU != 4000 {
		t.Errorf("more than there is: %v", got)
	}
	if err := os.Remove(filepath.Join(fake.dir, "meminfo")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.look(at, harvested, 0); err == nil {
		t.Error("without meminfo there is no error")
	}
}
