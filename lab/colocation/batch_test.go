package colocation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func run(t *testing.T, b Batch) string {
	t.Helper()
	var out bytes.Buffer
	if err := b.Run(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A query gives the right answer, also if tasks were killed midway and run again:
// their results are written whole or not at all.
func TestAQueryIsAnsweredWhateverWasKilled(t *testing.T) {
	const rows = 20_000
	sold := make(sums, items)
	for _, table := range []uint64{0, 1, 1000} {
		sold.add(tally(table, rows))
	}
	sorted := slices.Sorted(slices.Values(sold))
	slices.Reverse(sorted)

	b := Batch{Dir: t.TempDir(), Rows: rows}
	for index := range 2 {
		b.Stage, b.Index = "scan", index
		run(t, b)
		run(t, b)
	}
	if err := os.WriteFile(b.file("draft", 7), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Stage, b.Index = "join", 0
	run(t, b)
	run(t, b)
	b.Stage = "top"
	lines := strings.Split(strings.TrimSpace(run(t, b)), "\n")
	if len(lines) != 10 {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		var item int
		var sum int64
		if _, err := fmt.Sscan(line, &item, &sum); err != nil || sum != sorted[i] || sold[item] != sum {
			t.Errorf("place %d: %q, want %d", i+1, line, sorted[i])
		}
	}
}

func TestWhatIsCopiedIsChecked(t *testing.T) {
	b := Batch{Stage: "write", Dir: t.TempDir(), MB: 3}
	run(t, b)
	path := filepath.Join(b.Dir, "table-0")
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 3*block {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	text[2*block-100] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Stage = "read"
	if err := b.Run(nil); err == nil || !strings.Contains(err.Error(), "block 1 is not as it was written") {
		t.Errorf("a spoilt block: %v", err)
	}
	b.Stage = "write"
	run(t, b)
	b.Stage = "read"
	run(t, b)
	run(t, b) // an earlier run has finished
	if left, _ := os.ReadDir(b.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAnUnknownStageIsAMistake(t *testing.T) {
	if err := (Batch{Stage: "dance"}).Run(nil); err == nil {
		t.Error("it was done")
	}
}
