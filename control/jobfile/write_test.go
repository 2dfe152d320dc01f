package jobfile

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/input"
)

// awkward are texts that shells, YAML and JSON each have their own way to spoil.
var awkward = []string{"", " ", "a b", "'", `"`, `\`, `\n`, "\n", "a\nb\n", "\t", "\r\n", "$HOME", "$(id)", "`id`", "{}", "{", "- a", "a: b", "# no", "null", "~", "true", "1e3", "*a", "&a", "!!int 1",
	"\x01", "\x7f", "\u0085", "\u009f", "\u2028", "\ufeff", "\ufffd", "\uffff", "é", "世界", "🜁", "--", "-", "%d", strings.Repeat("long ", 20_000), strings.Repeat("long ", 40_000)}

// What is written is read back as it was, whatever the texts are, unless a command is
// too long.
func TestWriteThenRead(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom(awkward), rapid.StringMatching(`(\PC|[\x01-\x1f\x7f-\x{9f}]){0,20}`))
	name := rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		some := func(most time.Duration, what string) time.Duration {
			if rapid.Bool().Draw(t, what+" is set") {
				return time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(most)).Draw(t, what))
			}
			return 0
		}
		job := &cluster.Job{Name: name.Filter(func(s string) bool { return CheckName(s) == nil }).Draw(t, "job"), Time: some(MaxTime, "the job's time")}
		names := rapid.SliceOfNDistinct(name, 1, 4, rapid.ID[string]).Draw(t, "stages")
		for i, name := range names {
			st := cluster.Stage{Name: name, Tasks: rapid.IntRange(1, 1000).Draw(t, "tasks"),
				Request: cluster.Resources{CPU: cluster.MilliCPU(rapid.IntRange(1, 100_000).Draw(t, "cpu")), Memory: cluster.Bytes(rapid.IntRange(MinMemory, 1<<40).Draw(t, "memory"))},
				Time:    some(MaxTime, "time"), Grace: some(MaxGrace, "grace"),
				Command: append([]string{"x"}, rapid.SliceOfN(text, 0, 5).Draw(t, "command")...), Dir: text.Draw(t, "dir"),
				Processes: rapid.SampledFrom([]int{0, 2, 50}).Draw(t, "processes"), Output: cluster.Bytes(rapid.IntRange(0, 1<<30).Draw(t, "output")), Failures: rapid.IntRange(0, 5).Draw(t, "failures"), KeepGoing: rapid.Bool().Draw(t, "keeps going")}
			if i > 0 && rapid.Bool().Draw(t, "after") {
				st.After = names[:i]
			}
			switch rapid.IntRange(0, 2).Draw(t, "items") {
			case 1:
				st.Each = rapid.SliceOfN(text, 1, 10).Draw(t, "each")
				st.Tasks = len(st.Each)
			case 2:
				st.Array = cluster.Array{First: rapid.IntRange(0, 1000).Draw(t, "first"), Step: rapid.IntRange(1, 1000).Draw(t, "step")}
			}
			if rapid.Bool().Draw(t, "env") {
				st.Env = []string{"A=" + text.Draw(t, "A"), "é è=" + text.Draw(t, "é è")}
			}
			job.Stages = append(job.Stages, st)
		}
		file, err := Write(job)
		if err != nil {
			t.Fatal(err)
		}
		if len(file) > MaxBytes {
			t.Skip("too large")
		}
		got, err := Read("f", bytes.NewReader(file))
		if slices.ContainsFunc(job.Stages, func(st cluster.Stage) bool { return st.CheckCommand() != nil }) {
			if !input.Is(err) {
				t.Fatalf("a command that is too long is read: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if !reflect.DeepEqual(got, job) {
			t.Fatalf("wrote %+v\nread  %+v\n%s", job, got, file)
		}
	})
}

func TestWriteRefusesWhatIsNotText(t *testing.T) {
	_, err := Write(&cluster.Job{Name: "j", Stages: []cluster.Stage{{Name: "s", Tasks: 1, Command: []string{"cat", "\xff.txt"}}}})
	if !errors.Is(err, ErrNotText) || !strings.Contains(err.Error(), `"\xff.txt"`) {
		t.Errorf("%v", err)
	}
}
