package compute

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gleaner/cluster"
	"gleaner/input"
)

// jobsFile is a file of jobs to simulate: what a job file says, and how long a
// task of each stage takes.
type jobsFile struct {
	Jobs []yaml.Node `yaml:"jobs"`
}

type jobEntry struct {
	Name   string       `yaml:"name"`
	Stages []stageEntry `yaml:"stages"`
}

type stageEntry struct {
	Name    string   `yaml:"name"`
	Tasks   int      `yaml:"tasks"`
	CPU     float64  `yaml:"cpu"`       // cores
	Memory  float64  `yaml:"memory_mb"` // megabytes
	Seconds float64  `yaml:"seconds"`   // that one task takes
	After   []string `yaml:"after"`
}

// ReadQueries reads the jobs of a YAML file. Every task must fit on a server
// of one of sizes. Mistakes are input errors with the line of the job.
func ReadQueries(file string, r io.Reader, sizes ...cluster.Resources) ([]Query, error) {
	dec := yaml.NewDecoder(r)
	dec.KnownFields(true)
	var all jobsFile
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, input.Errorf(file, "%s", oneLine(err))
	}
	if len(all.Jobs) == 0 {
		return nil, input.Errorf(file, "holds no jobs")
	}
	var out []Query
	for i := range all.Jobs {
		node := &all.Jobs[i]
		q, err := readQuery(node)
		if err == nil {
			err = (&cluster.Job{Name: q.Name, Stages: q.Stages}).Validate(sizes...)
		}
		if err != nil {
			return nil, input.Linef(file, node.Line, "%s", oneLine(err))
		}
		out = append(out, q)
	}
	return out, nil
}

func readQuery(node *yaml.Node) (Query, error) {
	var entry jobEntry
	if err := node.Decode(&entry); err != nil {
		return Query{}, err
	}
	if entry.Name == "" {
		return Query{}, errors.New("a job needs a name")
	}
	q := Query{Name: entry.Name}
	for _, s := range entry.Stages {
		const most = 1e9
		for _, v := range []float64{s.CPU, s.Memory, s.Seconds, float64(s.Tasks)} {
			if math.IsNaN(v) || v < 0 || v > most {
				return Query{}, fmt.Errorf("job %q: stage %q: %g is not between 0 and %g", entry.Name, s.Name, v, most)
			}
		}
		if s.Seconds == 0 {
			return Query{}, fmt.Errorf("job %q: stage %q does not say how many seconds a task takes", entry.Name, s.Name)
		}
		q.add(s.Name, s.Tasks, time.Duration(s.Seconds*float64(time.Second)), s.After)
		q.Stages[len(q.Stages)-1].Request = cluster.Resources{CPU: cluster.MilliCPU(s.CPU * 1000), Memory: cluster.Bytes(s.Memory * float64(cluster.MB))}
	}
	return q, nil
}

// oneLine folds an error of several lines, and leaves out what only we know.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), " in type compute.jobsFile", "")), " ")
}
