// Package mixfile reads mix files: YAML that describes jobs which share a
// machine (docs/formats/mix.md). It is strict: anything unknown is a mistake,
// reported with its line.
package mixfile

import (
	"math"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"gleaner/dilation"
	"gleaner/input"
	"gleaner/input/mapping"
)

// Limits of a mix file.
const (
	MaxBytes     = 1 << 20
	maxInstances = 1 << 20
	maxCopies    = 1000
	maxJobs      = 10_000
)

// Resources names the resources of loading vectors in a mix file, in order.
func Resources() []string { return []string{"cpu", "io", "memory", "net"} }

// A Mix is jobs on one machine.
type Mix struct {
	Machine dilation.Machine
	Jobs    []Job
}

// A Job of a mix has a load, or the name of a file with its profile, which may
// also have the time it takes alone.
type Job struct {
	Name    string
	Load    dilation.Vector
	Profile string
	Alone   time.Duration // 0: as in the profile
	Start   time.Duration
	Line    int // it stands on
}

// Read reads a mix file; name is what it is called in errors.
func Read(name string, text []byte) (*Mix, error) {
	if len(text) > MaxBytes {
		return nil, input.Errorf(name, "larger than a mix file may be: %d bytes", MaxBytes)
	}
	doc, err := mapping.Document(name, text)
	if err != nil {
		return nil, err
	}
	if doc == nil {
		return nil, input.Errorf(name, "an empty file")
	}
	f := file{mapping.File(name)}
	m := &Mix{Machine: dilation.Machine{1, 1, 1, 1}}
	err = f.Fields(doc, "the mix", []string{"jobs"}, func(field string, value *yaml.Node) (_ bool, err error) {
		switch field {
		case "cores":
			m.Machine[0], err = f.Count(value, field, 1, maxInstances)
		case "disks":
			m.Machine[1], err = f.Count(value, field, 1, maxInstances)
		case "jobs":
			m.Jobs, err = f.jobs(value)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// A file is a mix file that is being read.
type file struct{ mapping.File }

func (f file) jobs(n *yaml.Node) ([]Job, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, f.Wrong(n, "jobs must be a list, of one job at least")
	}
	var all []Job
	for _, item := range n.Content {
		j, copies, err := f.job(item)
		if err != nil {
			return nil, err
		}
		if len(all)+copies > maxJobs {
			return nil, f.Wrong(item, "more than %d jobs", maxJobs)
		}
		for range copies {
			all = append(all, j)
		}
	}
	return all, nil
}

func (f file) job(n *yaml.Node) (j Job, copies int, err error) {
	j, copies = Job{Line: n.Line}, 1
	err = f.Fields(n, "the job", []string{"name"}, func(field string, value *yaml.Node) (_ bool, err error) {
		switch field {
		case "name":
			j.Name, err = f.Filled(value, field)
		case "load":
			j.Load, err = f.load(value)
		case "profile":
			j.Profile, err = f.Filled(value, field)
		case "alone":
			if j.Alone, err = f.length(value, field); err == nil && j.Alone == 0 {
				err = f.Wrong(value, "alone must be more than 0")
			}
		case "start":
			j.Start, err = f.length(value, field)
		case "copies":
			copies, err = f.Count(value, field, 1, maxCopies)
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
	case (j.Load == nil) == (j.Profile == ""):
		err = f.Wrong(n, "the job %q must have either a load or a profile", j.Name)
	case j.Profile == "" && j.Alone == 0:
		err = f.Wrong(n, "the job %q does not say how long it takes alone", j.Name)
	}
	return j, copies, err
}

// load reads shares by the names of resources.
func (f file) load(n *yaml.Node) (dilation.Vector, error) {
	load := make(dilation.Vector, len(Resources()))
	err := f.Fields(n, "load", nil, func(field string, value *yaml.Node) (bool, error) {
		for i, name := range Resources() {
			if name == field {
				share, err := f.Number(value, field, 0, 1)
				load[i] = share
				return true, err
			}
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if err := (dilation.Machine{1, 1, 1, 1}).Check(load); err != nil {
		return nil, f.Wrong(n, "%v", err)
	}
	return load, nil
}

// longest is more than any job takes, and leaves room to add many up.
const longest = 10 * 365 * 24 * time.Hour

// length reads a length of time: "90s", "1h30m", or a number of seconds.
func (f file) length(n *yaml.Node, what string) (time.Duration, error) {
	d, err := time.ParseDuration(n.Value)
	if s, numeric := strconv.ParseFloat(n.Value, 64); numeric == nil && math.Abs(s) <= longest.Seconds() {
		d, err = time.Duration(s*float64(time.Second)), nil
	}
	if n.Kind != yaml.ScalarNode || err != nil {
		return 0, f.Wrong(n, "%s is %q, not a length of time such as 90s or 1h30m", what, n.Value)
	}
	if d < 0 || d > longest {
		return 0, f.Wrong(n, "%s is %v, not between 0 and %v", what, d, longest)
	}
	return d, nil
}
