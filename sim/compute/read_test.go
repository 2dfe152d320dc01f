package compute

import (
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/input"
)

const goodJobs = `jobs:
  - name: nightly
    stages:
      - {name: map, tasks: 40, cpu: 1, memory_mb: 2048, seconds: 120}
      - {name: reduce, tasks: 4, cpu: 0.5, memory_mb: 512, seconds: 60.5, after: [map]}
  - name: hourly
    stages:
      - {name: all, tasks: 1, cpu: 2, seconds: 30}
`

func TestReadQueries(t *testing.T) {
	got, err := ReadQueries("jobs.yaml", strings.NewReader(goodJobs), cluster.Resources{CPU: 2 * cluster.Core, Memory: 2 * cluster.GB})
	if err != nil {
		t.Fatal(err)
	}
	reduce := got[0].Stages[1]
	if len(got) != 2 || got[1].Name != "hourly" || reduce.After[0] != "map" || reduce.Request != (cluster.Resources{CPU: 500, Memory: 512 * cluster.MB}) || got[0].Takes[1] != 60500*time.Millisecond {
		t.Errorf("read %+v", got)
	}
}

func TestReadQueriesSaysWhatIsWrong(t *testing.T) {
	for spoil, want := range map[string]string{
		"nightly=>":                     "jobs.yaml:2: a job needs a name",
		"after: [map]=>after: [reduce]": `jobs.yaml:2: job "nightly": stage "reduce" comes after itself`,
		"after: [map]=>after: [mop]":    `jobs.yaml:2: job "nightly": stage "reduce" comes after a stage that does not exist: mop`,
		"cpu: 2,=>cpu: 20,":             `jobs.yaml:6: job "hourly": stage "all" asks for more than any server has: 20 cores a task`,
		"tasks: 40=>tasks: 0":           `jobs.yaml:2: job "nightly": stage "map" has no tasks`,
		"tasks: 40=>tasks: many":        "jobs.yaml:2: yaml: unmarshal errors: line 4: cannot unmarshal !!str `many` into int",
		"seconds: 30=>second: 30":       `jobs.yaml:6: job "hourly": stage "all" does not say how many seconds a task takes`,
		"seconds: 30=>seconds: .nan":    `jobs.yaml:6: job "hourly": stage "all": NaN is not between 0 and 1e+09`,
		"jobs:=>work:":                  "jobs.yaml: yaml: unmarshal errors: line 1: field work not found",
	} {
		from, to, _ := strings.Cut(spoil, "=>")
		text := strings.Replace(goodJobs, from, to, 1)
		_, err := ReadQueries("jobs.yaml", strings.NewReader(text), cluster.Resources{CPU: 4 * cluster.Core, Memory: 4 * cluster.GB})
		if !input.Is(err) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", spoil, err, want)
		}
	}
}

func FuzzReadQueries(f *testing.F) {
	f.Add(goodJobs)
	f.Add("jobs: [{name: a, stages: [{name: b, tasks: 1, cpu: 1, seconds: 1, after: [b]}]}]")
	f.Add("jobs: [&a {name: x}, *a]")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ReadQueries("jobs.yaml", strings.NewReader(text)); err != nil && !input.Is(err) {
			t.Errorf("%v is no input error", err)
		}
	})
}
