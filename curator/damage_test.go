package curator

import (
	"strings"
	"testing"

	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// Records of a scan that no curator has written end the next scan, and Progress, with an error that says so.
func TestDamagedRecords(t *testing.T) {
	const open = `{"id":3,"open":true,"units":1,"partitions":1,"format":1,"jobs":["job/0"]}`
	for name, rows := range map[string][2]string{ // the record of the scan, and of its unit
		"a job without a version":   {`{"id":3,"format":1,"jobs":["x"]}`, ""},
		"no place for partitions":   {`{"id":3,"open":true,"format":1,"jobs":["job/0"]}`, ""},
		"too many partitions":       {`{"id":3,"open":true,"partitions":65536,"format":1,"jobs":["job/0"]}`, ""},
		"no units":                  {`{"id":3,"open":true,"partitions":1,"format":1,"jobs":["job/0"]}`, ""},
		"no partition":              {open, `{"table":"t"}`},
		"a partition too many":      {open, `{"partition":1}`},
		"a run without its section": {open, `{"runs":[{}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, store, writer := t.Context(), mem.New(), kv.NewWriter(1)
			table, err := store.Table(ctx, "t")
			if err != nil {
				t.Fatal(err)
			}
			c, err := Open(ctx, store, writer, Options{Name: "p", Tables: map[string]kv.Reader{"t": table}, Space: shuffle.Dir(t.TempDir()), Partitions: 1,
				Jobs: []Job{{Name: "job", Inputs: []Input{{Table: "t", Map: func(*kv.Record, *Pairs) error { return nil }}}, Reduce: func([]byte, *Values, func(task.Task)) error { return nil }}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := writer.Create(ctx, c.state, scanKey, []byte(rows[0])); err != nil {
				t.Fatal(err)
			}
			if rows[1] != "" {
				if _, err := writer.Create(ctx, c.state, unitKey(3, 0), []byte(rows[1])); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Progress(ctx); err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("progress: %v", err)
			}
			if _, err := c.Scan(ctx, func(task.Task) error { return nil }); err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("scan: %v", err)
			}
		})
	}
}
