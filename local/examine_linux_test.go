package local

import (
	"os"
	"path/filepath"
	"testing"
)

// Every part is examined, nothing is left behind, and a directory that does not
// exist yet is not made.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	found, _ := Examine(filepath.Join(dir, "not", "there"))
	seen := map[string]Finding{}
	for _, f := range found {
		seen[f.Part] = f
		if f.Says == "" || f.Health != Fine && f.Mend == "" && f.Part != "disk scheduler" {
			t.Errorf("%+v", f)
		}
	}
	for _, part := range []string{"control groups", "pressure", "open files", "processes", "space", "writing", "disk scheduler"} {
		if seen[part].Health == "" {
			t.Errorf("%s was not examined", part)
		}
	}
	if seen["writing"].Health == Broken {
		t.Errorf("%+v", seen["writing"])
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if f := examineSync("/proc"); f.Health != Broken || f.Mend == "" {
		t.Errorf("files in /proc: %+v", f)
	}
	if f := examineSpace(filepath.Join(dir, "gone")); f.Health != Broken {
		t.Errorf("no such directory: %+v", f)
	}
}
