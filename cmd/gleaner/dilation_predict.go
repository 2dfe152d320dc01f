package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/dilation"
	"gleaner/dilation/mixfile"
	"gleaner/input"
	lab "gleaner/lab/dilation"
)

func newDilationPredict() *cobra.Command {
	return &cobra.Command{
		Use:   "predict MIX.yaml",
		Short: "Predict when jobs that share a machine will end",
		Long: `Predict reads which jobs run on a machine, with their loading vectors or the
profiles that 'gleaner dilation profile --json' wrote, how long each takes alone and
when it starts. It prints when each will end, and the prediction of the linear sum,
a model of one resource. The file is described in docs/formats/mix.md.`,
		Example: `  gleaner dilation predict examples/dilation/mix.yaml`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "'%s' takes one mix file; see --help", cmd.CommandPath())
			}
			m, loose, err := readMix(args[0])
			if err != nil {
				return err
			}
			for _, name := range loose {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is not certain: its bounds are wider than requested; profile the job again, with more rounds (--most)\n", name)
			}
			p := predict(m)
			if wantJSON(cmd) {
				return printJSON(cmd, p)
			}
			return p.print(cmd.OutOrStdout())
		},
	}
}

// readMix reads a mix file and the profiles it names; loose lists the profiles whose
// bounds were still wide when profiling ended, each once.
func readMix(name string) (m *mixfile.Mix, loose []string, err error) {
	text, err := readInput(name)
	if err != nil {
		return nil, nil, err
	}
	if m, err = mixfile.Read(name, text); err != nil {
		return nil, nil, err
	}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Profile == "" {
			continue
		}
		p, err := takeProfile(name, j)
		if err != nil {
			return nil, nil, err
		}
		if !p.Tight && !slices.Contains(loose, j.Profile) {
			loose = append(loose, j.Profile)
		}
	}
	return m, loose, nil
}

// takeProfile sets a job's load from its profile. The path of the file is relative
// to the mix file.
func takeProfile(mix string, j *mixfile.Job) (*lab.Profile, error) {
	name := j.Profile
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(mix), name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, input.Linef(mix, j.Line, "%v", err)
	}
	var p lab.Profile
	if err := json.Unmarshal(text, &p); err != nil || len(p.Load) == 0 {
		return nil, input.Linef(mix, j.Line, "%s is not what 'gleaner dilation profile --json' writes", name)
	}
	j.Load = make(dilation.Vector, len(mixfile.Resources()))
	for _, s := range p.Load {
		i := slices.Index(mixfile.Resources(), s.Resource)
		switch {
		case i < 0:
			return nil, input.Linef(mix, j.Line, "%s has an unknown resource %q", name, s.Resource)
		case !(s.Share >= 0 && s.Share <= 1):
			return nil, input.Linef(mix, j.Line, "%s: the share of %s is %g, not between 0 and 1", name, s.Resource, s.Share)
		}
		j.Load[i] = s.Share
	}
	if j.Alone == 0 {
		j.Alone = time.Duration(float64(p.Alone) * float64(time.Second))
	}
	if err := (dilation.Machine{1, 1, 1, 1}).Check(j.Load); err != nil {
		return nil, input.Linef(mix, j.Line, "%s: %v", name, err)
	}
	if j.Alone <= 0 {
		return nil, input.Linef(mix, j.Line, "%s does not say how long the job takes alone", name)
	}
	return &p, nil
}

// A prediction is when the jobs of a mix will end.
type prediction struct {
	Machine  map[string]int `json:"machine"`
	Jobs     []predicted    `json:"jobs"`
	Makespan lab.Seconds    `json:"makespan_s"`
	Linear   lab.Seconds    `json:"linear_sum_s"`
}

type predicted struct {
	Name   string             `json:"name"`
	Load   map[string]float64 `json:"load"`
	Alone  lab.Seconds        `json:"alone_s"`
	Start  lab.Seconds        `json:"start_s"`
	End    lab.Seconds        `json:"end_s"`
	Takes  lab.Seconds        `json:"takes_s"`
	Factor float64            `json:"dilation"` // over its whole time
}

func predict(m *mixfile.Mix) prediction {
	jobs := make([]dilation.Job, len(m.Jobs))
	for i, j := range m.Jobs {
		jobs[i] = dilation.Job{Load: j.Load, Start: j.Start, Work: j.Alone}
	}
	finish := m.Machine.Finish(jobs)
	p := prediction{Machine: map[string]int{"cores": m.Machine[0], "disks": m.Machine[1]}, Makespan: inSeconds(dilation.Makespan(jobs, finish)), Linear: inSeconds(dilation.LinearSum(jobs))}
	for i, j := range m.Jobs {
		load := map[string]float64{}
		for r, name := range mixfile.Resources() {
			if j.Load[r] > 0 {
				load[name] = j.Load[r]
			}
		}
		takes := finish[i] - j.Start
		p.Jobs = append(p.Jobs, predicted{j.Name, load, inSeconds(j.Alone), inSeconds(j.Start), inSeconds(finish[i]), inSeconds(takes), takes.Seconds() / j.Alone.Seconds()})
	}
	return p
}

func inSeconds(d time.Duration) lab.Seconds { return lab.Seconds(d.Seconds()) }

func (p prediction) print(out io.Writer) error {
	t := newTable("job", "share of its time", ">starts s", ">alone s", ">takes s", ">slow-down", ">ends s")
	for _, j := range p.Jobs {
		t.row(j.Name, shares(j.Load), twoPlaces(j.Start), twoPlaces(j.Alone), twoPlaces(j.Takes), strconv.FormatFloat(j.Factor, 'f', 2, 64), twoPlaces(j.End))
	}
	if err := t.print(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nall are done after %s s; one after the other (linear sum) %s s\n", twoPlaces(p.Makespan), twoPlaces(p.Linear))
	return err
}

// shares writes a loading vector: cpu 58%, io 42%.
func shares(load map[string]float64) string {
	var parts []string
	for _, name := range mixfile.Resources() {
		if load[name] > 0 {
			parts = append(parts, name+" "+wholePercent(load[name]))
		}
	}
	return strings.Join(parts, ", ")
}
