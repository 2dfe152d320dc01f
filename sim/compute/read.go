package compute

import (
	"errors"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"gleaner/cluster"
	"gleaner/input"
	"gleaner/input/mapping"
)

// most is the largest number in a file of jobs.
const most = 1e9

// ReadQueries reads a YAML file of jobs: what a job file says, and how long a
// task of each stage takes. Every task must fit on a server of one of sizes.
// Mistakes are input errors with their line.
func ReadQueries(file string, r io.Reader, sizes ...cluster.Resources) ([]Query, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	doc, err := mapping.Document(file, text)
	if err != nil {
		return nil, err
	}
	if doc == nil {
		return nil, input.Errorf(file, "holds no jobs")
	}
	f := queryFile{File: mapping.File(file), sizes: sizes}
	err = f.Fields(doc, "the file", []string{"jobs"}, func(field string, value *yaml.Node) (_ bool, err error) {
		if field == "jobs" {
			err = f.jobs(value)
		}
		return field == "jobs", err
	})
	return f.queries, err
}

// A queryFile is a file of jobs that is being read.
type queryFile struct {
	mapping.File
	sizes   []cluster.Resources
	queries []Query
}

func (f *queryFile) jobs(n *yaml.Node) error {
	items, err := f.List(n, "jobs")
	if err == nil && len(items) == 0 {
		err = f.Wrong(n, "jobs is empty")
	}
	for i := 0; i < len(items) && err == nil; i++ {
		err = f.job(items[i])
	}
	return err
}

func (f *queryFile) job(n *yaml.Node) error {
	var q Query
	lines := map[string]int{"": n.Line} // of the stages
	err := f.Fields(n, "the job", []string{"name", "stages"}, func(field string, value *yaml.Node) (_ bool, err error) {
		switch field {
		case "name":
			q.Name, err = f.Filled(value, "name")
		case "stages":
			err = f.stages(value, &q, lines)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return err
	}
	var wrong *cluster.JobError
	if err := (&cluster.Job{Name: q.Name, Stages: q.Stages}).Validate(f.sizes...); errors.As(err, &wrong) {
		return input.Linef(string(f.File), lines[wrong.Stage], "%v", wrong)
	}
	f.queries = append(f.queries, q)
	return nil
}

func (f *queryFile) stages(n *yaml.Node, q *Query, lines map[string]int) error {
	items, err := f.List(n, "stages")
	for i := 0; i < len(items) && err == nil; i++ {
		var st cluster.Stage
		var seconds float64
		st, seconds, err = f.stage(items[i])
		q.Stages, q.Takes = append(q.Stages, st), append(q.Takes, time.Duration(seconds*float64(time.Second)))
		lines[st.Name] = items[i].Line
	}
	return err
}

// stage reads a stage, and the seconds that one of its tasks takes.
func (f *queryFile) stage(n *yaml.Node) (st cluster.Stage, seconds float64, err error) {
	st.Tasks = 1
	err = f.Fields(n, "the stage", []string{"name", "cpu", "seconds"}, func(field string, value *yaml.Node) (_ bool, err error) {
		var v float64
		switch field {
		case "name":
			st.Name, err = f.Filled(value, "name")
		case "tasks":
			st.Tasks, err = f.Count(value, field, 1, 1_000_000)
		case "cpu":
			v, err = f.Number(value, field, 0, most)
			st.Request.CPU = cluster.MilliCPU(v * float64(cluster.Core))
		case "memory_mb":
			v, err = f.Number(value, field, 0, most)
			st.Request.Memory = cluster.Bytes(v * float64(cluster.MB))
		case "seconds":
			if seconds, err = f.Number(value, field, 0, most); err == nil && seconds == 0 {
				err = f.Wrong(value, "a task must take more than 0 seconds")
			}
		case "after":
			st.After, err = f.Texts(value, field)
		default:
			return false, nil
		}
		return true, err
	})
	return st, seconds, err
}
