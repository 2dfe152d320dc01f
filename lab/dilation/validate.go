package dilation

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	model "gleaner/dilation"
	"gleaner/local/mix"
)

// A part is one job of a mix: a workload, how long it takes alone and when it starts,
// both in units of the experiment's length.
type part struct {
	work          string
	length, start float64
}

// A blend is jobs to run side by side, and the figure they reproduce.
type blend struct {
	figure string
	parts  []part
}

// The mixes. Lengths differ so that every mix has a time when all run and one
// when fewer do. None was used to find the vectors it is predicted with.
var blends = []blend{
	{"3", []part{{"cpu", 1, 0}, {"cpu", 1.6, 0}}},
	{"3", []part{{"io", 1, 0}, {"io", 1.6, 0}}},
	{"3", []part{{"cpu", 1, 0}, {"io", 1.3, 0}}},
	{"4", []part{{"filecomp", 1, 0}, {"io", 1.6, 0}}},
	{"4", []part{{"filecomp", 1, 0}, {"filecomp", 1.6, 0}}},
	{"4", []part{{"filecomp", 1, 0}, {"cpu", 1.3, 0}, {"io", 1.6, 0}}},
	{"5", []part{{"mail", 1, 0}, {"files", 1.6, 0}}},
	{"5", []part{{"mail", 1, 0}, {"mail", 1.2, 0}, {"files", 1.6, 0}}},
	{"5", []part{{"mail", 1, 0}, {"files", 1.3, 0}, {"files", 1.6, 0}}},
	{"-", []part{{"filecomp", 1.3, 0}, {"mail", 1, 0.5}, {"cpu", 1, 0.8}}},
}

// withFio are the mixes of a workload of fio, if it is installed.
var withFio = []blend{
	{"-", []part{{"fio", 1, 0}, {"io", 1.6, 0}}},
	{"-", []part{{"fio", 1, 0}, {"filecomp", 1.3, 0}}},
}

// Options are how thorough Validate is.
type Options struct {
	Length time.Duration // of a job of length 1, alone
	Repeat int           // rounds for every mix
	Dir    string        // for files
}

// A Row is one job of a mix.
type Row struct {
	Job        string       `json:"job"`
	Alone      Seconds      `json:"alone_s"`
	Start      Seconds      `json:"start_s"`
	Measured   Seconds      `json:"measured_s"` // from its start to its end
	DFactor    Seconds      `json:"dfactor_s"`
	Linear     Seconds      `json:"linear_sum_s"`
	DFactorOff float64      `json:"dfactor_error"`
	LinearOff  float64      `json:"linear_sum_error"`
	Load       model.Vector `json:"load"`
}

// A Mix is the predicted and the measured times of one mix.
type Mix struct {
	Figure     string  `json:"figure"` // of the paper
	Jobs       []Row   `json:"jobs"`
	DFactorOff float64 `json:"dfactor_error"` // mean over jobs
	LinearOff  float64 `json:"linear_sum_error"`
}

// A Validation is how well the model predicts real mixes.
type Validation struct {
	Cores      int                 `json:"cores"`
	Profiles   map[string]*Profile `json:"profiles"`
	Mixes      []Mix               `json:"mixes"`
	DFactorOff float64             `json:"dfactor_error"` // mean over all mixes' jobs
	LinearOff  float64             `json:"linear_sum_error"`
	Better     int                 `json:"better"` // mixes in which the D-factor is closer
	Rounds     int                 `json:"rounds"`
	Disturbed  int                 `json:"disturbed"`
}

// A trial is a validation under way.
type trial struct {
	*Bench
	Options
	sizes map[string]int64
	loads map[string]model.Vector
	out   *Validation
}

// Validate profiles the workloads as the paper does and compares measured mixes of
// them with the predictions of the D-factor and the linear sum (§5.1).
func (b *Bench) Validate(ctx context.Context, o Options) (*Validation, error) {
	t := &trial{Bench: b, Options: o, sizes: map[string]int64{}, loads: map[string]model.Vector{"cpu": {1, 0}, "io": {0, 1}},
		out: &Validation{Cores: b.Machine()[0], Profiles: map[string]*Profile{}}}
	all := blends
	profiled := []string{"filecomp", "mail", "files"}
	if hasFio() {
		all, profiled = append(all[:len(all):len(all)], withFio...), append(profiled, "fio")
	}
	for _, work := range []string{"cpu", "io"} {
		if err := t.calibrate(ctx, work); err != nil {
			return nil, err
		}
	}
	for _, work := range profiled {
		if err := t.profile(ctx, work); err != nil {
			return nil, err
		}
	}
	for _, m := range all {
		if err := t.measure(ctx, m); err != nil {
			return nil, err
		}
	}
	t.summarise()
	return t.out, nil
}

func hasFio() bool {
	_, err := exec.LookPath("fio")
	return err == nil
}

// command is a workload of some size.
func (t *trial) command(work string, size int64) []string {
	if work != "fio" {
		return t.Std(work, size)
	}
	return []string{"fio", "--name=gleaner", "--filename=" + filepath.Join(t.Dir, "fio.dat"), "--size=256m", "--io_size=" + strconv.FormatInt(size*8, 10) + "m",
		"--bs=8m", "--rw=randrw", "--rwmixread=70", "--direct=1", "--ioengine=psync", "--thread", "--minimal"}
}

// calibrate finds the size at which a workload takes the wanted time: it doubles the
// size until the time can be measured, and then scales it twice in proportion,
// because a first run may find the machine cold.
func (t *trial) calibrate(ctx context.Context, work string) error {
	for size, left := int64(8), 2; ; {
		took, err := t.alone(ctx, t.command(work, size))
		if err != nil {
			return err
		}
		if took.Wall() < t.Length/3 {
			size *= 2
			continue
		}
		size = max(1, int64(float64(size)*t.Length.Seconds()/took.Wall().Seconds()))
		if left--; left == 0 {
			t.sizes[work] = size
			return nil
		}
	}
}

// profile finds the loading vector of a workload as the paper does: FileComp by
// a probe for CPU (§4.2), the file workloads by identical copies (Algorithm 1).
func (t *trial) profile(ctx context.Context, work string) error {
	if err := t.calibrate(ctx, work); err != nil {
		return err
	}
	o := ProfileOptions{Method: Identical, Copies: 2, Tolerance: 0.05, Least: t.Repeat, Most: 2 * t.Repeat}
	if work == "filecomp" || work == "fio" {
		o.Method = Probe
	}
	p, err := t.Profile(ctx, t.command(work, t.sizes[work]), o)
	if err != nil {
		return err
	}
	t.out.Profiles[work], t.loads[work] = p, p.Vector()
	return nil
}

// measure runs one mix, each job alone before, as often as asked for.
func (t *trial) measure(ctx context.Context, m blend) error {
	alone, together := make([][]time.Duration, len(m.parts)), make([][]time.Duration, len(m.parts))
	var commands []mix.Command
	for _, p := range m.parts {
		size := max(1, int64(math.Round(p.length*float64(t.sizes[p.work]))))
		commands = append(commands, mix.Command{Args: t.command(p.work, size), Start: time.Duration(p.start * float64(t.Length))})
	}
	for range t.Repeat {
		for i, c := range commands {
			took, err := t.alone(ctx, c.Args)
			if err != nil {
				return err
			}
			alone[i] = append(alone[i], took.Wall())
		}
		took, err := t.run(ctx, commands...)
		if err != nil {
			return err
		}
		for i := range commands {
			together[i] = append(together[i], took[i].Wall())
		}
	}
	t.compare(m, alone, together)
	return nil
}

// compare adds a mix with its measured and predicted times.
func (t *trial) compare(m blend, alone, together [][]time.Duration) {
	jobs := make([]model.Job, len(m.parts))
	for i, p := range m.parts {
		jobs[i] = model.Job{Load: t.loads[p.work], Start: time.Duration(p.start * float64(t.Length)), Work: median(alone[i])}
	}
	finish := t.Machine().Finish(jobs)
	linear := model.LinearSum(jobs)
	out := Mix{Figure: m.figure}
	for i, p := range m.parts {
		measured, predicted := median(together[i]), finish[i]-jobs[i].Start
		row := Row{Job: p.work, Alone: seconds(jobs[i].Work), Start: seconds(jobs[i].Start), Measured: seconds(measured), DFactor: seconds(predicted), Linear: seconds(linear),
			DFactorOff: off(predicted, measured), LinearOff: off(linear, measured), Load: jobs[i].Load}
		out.Jobs = append(out.Jobs, row)
		out.DFactorOff += row.DFactorOff / float64(len(m.parts))
		out.LinearOff += row.LinearOff / float64(len(m.parts))
	}
	t.out.Mixes = append(t.out.Mixes, out)
}

// off is the error of a predicted time, as a share of the measured one.
func off(predicted, measured time.Duration) float64 {
	return math.Abs(predicted.Seconds()-measured.Seconds()) / measured.Seconds()
}

func (t *trial) summarise() {
	n := 0.0
	for _, m := range t.out.Mixes {
		for _, row := range m.Jobs {
			t.out.DFactorOff, t.out.LinearOff, n = t.out.DFactorOff+row.DFactorOff, t.out.LinearOff+row.LinearOff, n+1
		}
		if m.DFactorOff < m.LinearOff {
			t.out.Better++
		}
	}
	t.out.DFactorOff, t.out.LinearOff = t.out.DFactorOff/n, t.out.LinearOff/n
	t.out.Rounds, t.out.Disturbed = t.Rounds, t.Disturbed
}

// Name writes a mix as "mail + 2 files".
func (m *Mix) Name() string {
	var names []string
	for _, row := range m.Jobs {
		names = append(names, row.Job)
	}
	var out []string
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if n := count(names, name); n > 1 {
			name = fmt.Sprintf("%d %s", n, name)
		}
		out = append(out, name)
	}
	return strings.Join(out, " + ")
}

func count(names []string, name string) int {
	n := 0
	for _, other := range names {
		if other == name {
			n++
		}
	}
	return n
}
