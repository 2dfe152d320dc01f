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
		"nightly=>":                     "jobs.yaml:2: name must be a text",
		`nightly=>""`:                   "jobs.yaml:2: name must not be empty",
		"after: [map]=>after: [reduce]": `jobs.yaml:5: job "nightly": stage "reduce" comes after itself`,
		"after: [map]=>after: [mop]":    `jobs.yaml:5: job "nightly": stage "reduce" comes after a stage that does not exist: mop`,
		"cpu: 2,=>cpu: 20,":             `jobs.yaml:8: job "hourly": stage "all" asks for more than any server has: 20 cores a task`,
		"cpu: 2,=>":                     `jobs.yaml:8: the stage has no cpu`,
		"tasks: 40=>tasks: 0":           `jobs.yaml:4: tasks is 0, not between 1 and 1000000`,
		"tasks: 40=>tasks: many":        `jobs.yaml:4: tasks is "many", not a whole number`,
		"memory_mb: 512=>memory: 512":   `jobs.yaml:5: the stage has no field "memory"`,
		"seconds: 30=>seconds: 0":       `jobs.yaml:8: a task must take more than 0 seconds`,
		"seconds: 30=>seconds: .nan":    `jobs.yaml:8: seconds is ".nan", not a number between 0 and 1e+09`,
		"jobs:=>work:":                  `jobs.yaml:1: the file has no field "work"`,
		goodJobs + "=>server,cpu":       "jobs.yaml:1: the file must be a list of fields with values",
		goodJobs + "=>":                 "jobs.yaml: holds no jobs",
		goodJobs + "=>jobs: []":         "jobs.yaml:1: jobs is empty",
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
