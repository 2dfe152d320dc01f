package jobfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"gleaner/cluster"
	"gleaner/input"
)

// Each case is a job file, and below the line what is read of it or why not.
func TestRead(t *testing.T) {
	datadriven.Walk(t, "testdata/read", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			job, err := Read("job.yaml", strings.NewReader(d.Input))
			if err != nil {
				if !input.Is(err) {
					t.Errorf("not told as the user's mistake: %v", err)
				}
				return err.Error() + "\n"
			}
			return describe(job)
		})
	})
}

func describe(job *cluster.Job) string {
	var out strings.Builder
	out.WriteString(job.Name)
	if job.Time > 0 {
		fmt.Fprintf(&out, " within %s", job.Time)
	}
	out.WriteString("\n")
	for _, s := range job.Stages {
		text, _ := json.Marshal(s)
		fmt.Fprintf(&out, "  %s\n", text)
	}
	return out.String()
}

func TestTooLarge(t *testing.T) {
	_, err := Read("job.yaml", strings.NewReader(strings.Repeat("#", MaxBytes+1)))
	if !input.Is(err) {
		t.Errorf("%v", err)
	}
}

// A command that would be too long with its longest item is refused at its line.
func TestTooLongACommand(t *testing.T) {
	text := fmt.Sprintf("name: j\nstages:\n  - name: a\n    cpu: 1\n    memory: 1GB\n    command: [echo, %q]\n    each: [short, %s]\n",
		strings.Repeat("{}", 40_000), strings.Repeat("x", 100_000))
	_, err := Read("job.yaml", strings.NewReader(text))
	want := "job.yaml:6: command: argument list too long: argument 1 has 4000000000 bytes, more than 131071"
	if !input.Is(err) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestExamplesAreJobs(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name, f); err != nil {
			t.Error(err)
		}
		f.Close()
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]cluster.Bytes{
		"16MiB": 16 << 20, "2GB": 2e9, "1.5 GiB": 3 << 29, "0B": 0, "10KB": 10_000, "1TiB": 1 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "16", "MiB", "-1MiB", "1e30GB", "NaNGB", "InfGB", "16 mib", "0x10MB1"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// Whatever is read is a job that can be run, or a mistake on a line that exists.
// What YAML takes for the end of a line.
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("../../examples/*.yaml")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("name: a\nstages: [{name: s, cpu: 1, memory: 1GB, command: [x], after: [s]}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("\"\r\r"))
	f.Fuzz(func(t *testing.T, text []byte) {
		job, err := Read("f", bytes.NewReader(text))
		if err == nil {
			if err := job.Validate(); err != nil {
				t.Fatal(err)
			}
			for _, s := range job.Stages {
				if len(s.Command) == 0 || !names.MatchString(s.Name) {
					t.Fatalf("%+v", s)
				}
			}
			return
		}
		var at *input.Error
		if !errors.As(err, &at) || at.Line < 0 || at.Line > len(lineBreak.FindAll(text, -1))+2 {
			t.Fatalf("%v", err)
		}
	})
}

func TestNamesAndArrays(t *testing.T) {
	for _, name := range []string{"a", "7a", "job", "job-", "job-7a", "_1", "1.0"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "7", "007", "job-7", "a b", "-a", strings.Repeat("a", 65)} {
		if CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
	for text, want := range map[string]int{"1-3": 3, "0-90:10": 10, "0-0": 1} {
		if _, tasks, err := ParseArray(text); err != nil || tasks != want {
			t.Errorf("%s: %d tasks, %v", text, tasks, err)
		}
	}
	for _, text := range []string{"", "3", "3-1", "1-3:0", "001-003", "00-3", "1-9999999999"} {
		if _, tasks, err := ParseArray(text); err == nil {
			t.Errorf("%q: %d tasks", text, tasks)
		}
	}
}
