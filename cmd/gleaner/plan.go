package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan"
	"gleaner/plan/spec"
)

func newPlan() *cobra.Command {
	var f planFlags
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Find the cheapest cluster that meets an SLA",
		Long: `Plan reads an application, the hardware that can be bought and an SLA, and finds the
cheapest cluster: where each dataset lies, how many units, instances, cores and
servers, and what goes into each server.

The documents are XML as in the paper (FAST'12, Figure 2) or the same in YAML;
'gleaner plan new DIR' writes some to start from.

When --time-limit has passed, or on Ctrl-C, the best plan so far is shown, and
how far above the cheapest it may be.`,
		Example: `  gleaner plan new mine
  gleaner plan examples scc
  gleaner plan --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml

  # What would sharing servers between tasks and data save?
  gleaner plan --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml --colocate

  # What if SSDs were a fifth cheaper, and tags had to stay off disks of 7.2K?
  gleaner plan --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml \
    --set storage_unit/SSD/price=x0.8 --forbid tags=7.2KDisk`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, o, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			if limit <= 0 {
				return input.Errorf("--time-limit", "must be positive, got %v", limit)
			}
			start := time.Now()
			bar := newProgress(cmd, "planning", limit.Milliseconds())
			o.Second = true
			o.Stop = func() bool {
				bar.set(int(time.Since(start).Milliseconds()), int(limit.Milliseconds()))
				return time.Since(start) > limit || cmd.Context().Err() != nil
			}
			p, err := plan.Solve(in, o)
			bar.finish()
			if errors.Is(err, plan.ErrStopped) && cmd.Context().Err() == nil {
				return input.Errorf("--time-limit", "no cluster found within %v", limit)
			}
			if err != nil {
				return planErr(cmd, err)
			}
			if wantJSON(cmd) {
				return printJSON(cmd, planJSON(in, p, time.Since(start)))
			}
			return printPlan(cmd.OutOrStdout(), in, p)
		},
	}
	f.register(cmd)
	f.registerLimits(cmd)
	cmd.Flags().DurationVar(&limit, "time-limit", 30*time.Second, "how long to search at most")
	cmd.AddCommand(newPlanCurve(), newPlanRobust(), newPlanCheck(), newPlanExamples(), newPlanNew(), newPlanCompare(), newPlanWhy(), newPlanSupply(), newPlanDraft(), newPlanCatalogue())
	return cmd
}

// planFlags are what all planning commands take.
type planFlags struct {
	app, hw, sla, solver string
	colocate             bool
	gap                  float64
	whatIf
}

func (f *planFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.app, "app", "", "application `file`")
	cmd.Flags().StringVar(&f.hw, "hw", "", "hardware `file`")
	cmd.Flags().StringVar(&f.sla, "sla", "", "SLA `file`")
	cmd.Flags().BoolVar(&f.colocate, "colocate", false, "let tasks and remote datasets share servers")
	cmd.Flags().StringVar(&f.solver, "solver", "built-in", "solver that packs the servers: built-in, highs or cbc")
	cmd.Flags().Float64Var(&f.gap, "gap", 0, "stop when the possible saving is at most this share of the cost")
	f.registerSet(cmd)
}

// load reads the three documents; all mistakes in them are reported at once.
func (f *planFlags) load(ctx context.Context, edits ...spec.Edit) (plan.Input, plan.Options, error) {
	var in plan.Input
	o := plan.Options{Colocate: f.colocate, Gap: f.gap, Stop: func() bool { return ctx.Err() != nil }}
	var mistakes input.Errors
	keep := func(err error) error {
		var one *input.Error
		var many input.Errors
		switch {
		case errors.As(err, &many):
			mistakes = append(mistakes, many...)
		case errors.As(err, &one):
			mistakes = append(mistakes, one)
		default:
			return err
		}
		return nil
	}
	if !(f.gap >= 0 && f.gap < 1) {
		return in, o, input.Errorf("--gap", "%g is not a share of the cost, from 0 to 1", f.gap)
	}
	var err error
	if o.Pack, err = packer(ctx, f.solver); err != nil {
		return in, o, err
	}
	edit, err := f.settings()
	if err != nil {
		return in, o, err
	}
	edits = append(edits, edit)
	for _, doc := range []struct {
		flag, file string
		read       func(data []byte) error
	}{
		{"--app", f.app, func(data []byte) (err error) { in.App, err = spec.ReadApplication(f.app, data, edits...); return err }},
		{"--hw", f.hw, func(data []byte) (err error) { in.HW, err = spec.ReadHardware(f.hw, data, edits...); return err }},
		{"--sla", f.sla, func(data []byte) (err error) { in.SLA, err = spec.ReadSLA(f.sla, data, in.App, edits...); return err }},
	} {
		data, err := readSpec(doc.flag, doc.file)
		if err == nil {
			err = doc.read(data)
		}
		if err := keep(err); err != nil {
			return in, o, err
		}
	}
	if len(mistakes) > 0 {
		return in, o, fieldsAsFlags(mistakes)
	}
	if err := in.Unbudgeted(); err != nil {
		return in, o, err
	}
	if in.Harvested, err = f.harvested(edits); err != nil {
		return in, o, err
	}
	o.Limits, err = f.limits(in)
	return in, o, err
}

// readSpec reads a document, up to a little more than the largest one allowed.
func readSpec(flag, file string) ([]byte, error) {
	if file == "" {
		return nil, input.Errorf(flag, "name a file; 'gleaner plan new DIR' writes some")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, input.Errorf(flag, "%v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, spec.MaxSize+1))
	if err != nil {
		return nil, input.Errorf(flag, "%v", err)
	}
	return data, nil
}

// planErr distinguishes a search that the user stopped from one that failed.
func planErr(cmd *cobra.Command, err error) error {
	if errors.Is(err, plan.ErrStopped) && cmd.Context().Err() != nil {
		return cmd.Context().Err()
	}
	return err
}

type planResult struct {
	Cost       float64                   `json:"cost"`
	LowerBound float64                   `json:"lower_bound"`
	Gap        float64                   `json:"gap"`
	Cautious   bool                      `json:"by_latency_bound,omitempty"` // the cheapest by a cautious bound
	Currency   string                    `json:"currency"`
	Assignment map[string]planAssignment `json:"assignment"`
	Servers    []planServer              `json:"servers"`
	Tasks      map[string]planTask       `json:"tasks"`
	Phases     map[string]float64        `json:"phase_seconds,omitempty"`
	SecondBest *planSecond               `json:"second_best,omitempty"`
	Latencies  []planLatency             `json:"latencies,omitempty"`
	Idle       []string                  `json:"idle_tasks"`
	Energy     float64                   `json:"energy,omitempty"`
	Monthly    float64                   `json:"monthly,omitempty"`
	Power      float64                   `json:"power_watts,omitempty"`
	RackUnits  float64                   `json:"rack_units,omitempty"`
	Harvested  []planHarvest             `json:"harvested,omitempty"`
	Space      float64                   `json:"architectures"`
	Packed     int                       `json:"problems_packed"`
	Stopped    bool                      `json:"stopped"`
	Seconds    float64                   `json:"solve_seconds"`
}

type planAssignment struct {
	Store string `json:"store"`
	Cache string `json:"cache,omitempty"`
}

type planServer struct {
	Type       string                    `json:"type"`
	Count      int                       `json:"count"`
	CPUs       int                       `json:"cpus"`
	Units      map[string]int            `json:"units"`
	Tasks      map[string]int            `json:"tasks"`
	Datasets   map[string]map[string]int `json:"datasets"`
	Shares     map[string]float64        `json:"shares"`
	Hours      string                    `json:"hours,omitempty"`
	ByHours    map[string]plan.Work      `json:"by_hours,omitempty"`
	Bottleneck string                    `json:"bottleneck"`
}

type planTask struct {
	Runtime   float64 `json:"runtime_seconds"`
	Instances int     `json:"instances"`
}

type planLatency struct {
	Task       string  `json:"task"`
	Percentile float64 `json:"percentile"`
	Goal       float64 `json:"goal_seconds"`
	Alone      float64 `json:"alone_seconds"`
	Busy       float64 `json:"most_busy"`
}

type planSecond struct {
	Cost       float64                   `json:"cost"`
	Assignment map[string]planAssignment `json:"assignment"`
}

func planJSON(in plan.Input, p plan.Plan, took time.Duration) planResult {
	out := planResult{Cost: cents(p.Cost), LowerBound: cents(p.LowerBound), Gap: p.Gap(), Cautious: len(p.Needs.Answers) > 0, Currency: in.HW.Currency,
		Assignment: assignmentJSON(in, p.Needs.Architecture), Servers: []planServer{}, Tasks: map[string]planTask{},
		Idle: idleTasks(in, p), Energy: cents(p.Energy(in)), Monthly: cents(monthly(in, p)), Power: p.Power(in), RackUnits: p.RackUnits(in), Space: p.Space, Packed: p.Packed, Stopped: p.Stopped, Seconds: took.Seconds()}
	for _, s := range p.Servers(in) {
		out.Servers = append(out.Servers, planServer{s.Type, s.Count, s.CPUs, s.Units, s.Tasks, s.Datasets, s.Shares, hoursOf(s), s.ByHours, s.Bottleneck})
	}
	for _, t := range p.Needs.Tasks {
		out.Tasks[in.App.Tasks[t.Task].Name] = planTask{t.Runtime, t.Instances}
	}
	for _, a := range p.Needs.Answers {
		r := in.SLA.Rates[a.Rate]
		out.Latencies = append(out.Latencies, planLatency{in.App.Tasks[r.Task].Name, r.Percentile, r.Latency, a.Seconds, a.Busy})
	}
	out.Harvested = harvestJSON(in, p)
	if len(p.Needs.Seconds) > 0 {
		out.Phases = map[string]float64{}
		for i, name := range p.Needs.Phases {
			out.Phases[name] = p.Needs.Seconds[i]
		}
	}
	if p.Second != nil {
		out.SecondBest = &planSecond{cents(p.Second.Cost), assignmentJSON(in, p.Second.Architecture)}
	}
	return out
}

// hoursOf are the hours of the day in which a server is rented; empty if it stands all day.
func hoursOf(s plan.Server) string {
	if s.Hours == nil {
		return ""
	}
	return s.Hours.Name
}

// idleTasks names the tasks that never run.
func idleTasks(in plan.Input, p plan.Plan) []string {
	out := []string{}
	for _, t := range p.Needs.Idle {
		out = append(out, in.App.Tasks[t].Name)
	}
	return out
}

func cents(x float64) float64 { return math.Round(x*100) / 100 }

func assignmentJSON(in plan.Input, arch plan.Architecture) map[string]planAssignment {
	out := map[string]planAssignment{}
	for i, c := range arch {
		a := planAssignment{Store: in.HW.Units[c.Store].Name}
		if c.Cache != plan.NoCache {
			a.Cache = in.HW.Units[c.Cache].Name
		}
		out[in.App.Datasets[i].Name] = a
	}
	return out
}

// money writes an amount in whole units with separators: $7,324 or 6,700 EUR. Half a unit is one, whether or not
// the amount was written in cents before.
func money(currency string, amount float64) string {
	amount = math.Round(cents(amount))
	sign := ""
	if amount < 0 {
		sign = "-"
	}
	digits := plan.Figure(math.Abs(amount))
	if currency == "USD" {
		return sign + "$" + digits
	}
	return sign + digits + " " + currency
}
