package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/chart"
	"gleaner/input"
	"gleaner/plan"
)

func newPlanCurve() *cobra.Command {
	var f planFlags
	var scale, plotDir string
	var points int
	cmd := &cobra.Command{
		Use:   "curve",
		Short: "Show cost against SLA, and where the architecture changes",
		Long: `Curve plans for multiples of the SLA, from a small one to a large one, finds the
borders between architectures by bisection, shows what changes there, and compares
the cost with that of scaling out a homogeneous cluster.`,
		Example: `  gleaner plan curve --app scc/photoshare.xml --hw scc/server1.xml --sla scc/photoshare-sla.xml --scale 0.05:100 --plot out`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, to, err := parseScale(scale)
			if err != nil {
				return err
			}
			if points < 2 || points > 10000 {
				return input.Errorf("--points", "%d is not from 2 to 10000", points)
			}
			in, o, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			c, err := traceCurve(cmd, in, o, plan.Scales(from, to, points))
			if err != nil {
				return planErr(cmd, err)
			}
			if plotDir != "" {
				paths, err := c.figure(in).Save(plotDir)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), strings.Join(paths, "\n"))
			}
			if wantJSON(cmd) {
				return printJSON(cmd, c.json(in))
			}
			return c.print(cmd, in)
		},
	}
	f.register(cmd)
	f.registerLimits(cmd)
	cmd.Flags().StringVar(&scale, "scale", "0.05:100", "multiples of the SLA to plan for, as `FROM:TO`")
	cmd.Flags().IntVar(&points, "points", 100, "how many multiples")
	cmd.Flags().StringVar(&plotDir, "plot", "", "save the curve as a picture to `DIR`")
	return cmd
}

func parseScale(s string) (from, to float64, err error) {
	a, b, ok := strings.Cut(s, ":")
	from, err1 := strconv.ParseFloat(a, 64)
	to, err2 := strconv.ParseFloat(b, 64)
	if !ok || err1 != nil || err2 != nil || !(from > 0) || !(to > from) || to > 1e9 {
		return 0, 0, input.Errorf("--scale", "%q is not FROM:TO with 0 < FROM < TO, for example 0.05:100", s)
	}
	return from, to, nil
}

// A curve is plans along multiples of an SLA, and the cost of scaling out.
type curve struct {
	points  []plan.Point
	regimes []plan.Regime
	blocks  []int       // kinds of units that are scaled out
	scaled  [][]float64 // their cost, by block and point; 0 if impossible
	broke   error       // what ended the curve early, if anything
}

func traceCurve(cmd *cobra.Command, in plan.Input, o plan.Options, scales []float64) (*curve, error) {
	c := &curve{blocks: plan.Blocks(in)}
	c.scaled = make([][]float64, len(c.blocks))
	bar := newProgress(cmd, "planning", int64(len(scales)))
	defer bar.finish()
	for _, scale := range scales {
		p, err := plan.At(in, o, scale)
		if input.Is(err) && len(c.points) > 0 {
			c.broke = err
			break
		}
		if err != nil {
			return nil, err
		}
		c.points = append(c.points, p)
		at := in
		at.SLA = in.SLA.Scaled(scale)
		for i, unit := range c.blocks {
			cost := 0.0
			h, err := plan.Homogeneous(at, o, unit)
			if err == nil {
				cost = h.Cost
			} else if errors.Is(err, plan.ErrStopped) {
				return nil, err
			}
			c.scaled[i] = append(c.scaled[i], cost)
		}
		bar.add(1)
	}
	plan.Even(c.points)
	var err error
	c.regimes, err = plan.Regimes(in, o, c.points)
	return c, err
}

func (c *curve) print(cmd *cobra.Command, in plan.Input) error {
	w := cmd.OutOrStdout()
	head := []string{">SLA x", ">cost", ">servers"}
	for _, u := range c.blocks {
		head = append(head, ">all "+in.HW.Units[u].Name)
	}
	t := newTable(head...)
	step := max(1, len(c.points)/20)
	for i, p := range c.points {
		if i%step != 0 && i != len(c.points)-1 {
			continue
		}
		row := []string{plan.Figure(p.Scale), money(in.HW.Currency, p.Plan.Cost), fmt.Sprint(p.Plan.Most(in))}
		for b := range c.blocks {
			cell := "-"
			if cost := c.scaled[b][i]; cost > 0 {
				cell = fmt.Sprintf("%.2fx", cost/p.Plan.Cost)
			}
			row = append(row, cell)
		}
		t.row(row...)
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nRegimes, as multiples of the SLA:\n")
	for _, r := range c.regimes {
		fmt.Fprintf(w, "  %s to %s: %s\n", plan.Figure(r.From), plan.Figure(r.To), r.Architecture.Describe(in))
		for _, words := range r.Words {
			fmt.Fprintf(w, "      %s\n", words)
		}
	}
	c.printSteps(w, in)
	if c.broke != nil {
		fmt.Fprintf(w, "The curve ends there: %v\n", c.broke)
	}
	return nil
}

// printSteps prints what changes from point to point (Figure 7), if there are few
// points.
func (c *curve) printSteps(w io.Writer, in plan.Input) {
	if len(c.points) > 10 {
		return
	}
	fmt.Fprintln(w)
	for i := 1; i < len(c.points); i++ {
		fmt.Fprintf(w, "From %s to %s:\n", plan.Figure(c.points[i-1].Scale), plan.Figure(c.points[i].Scale))
		for _, words := range plan.Changes(in, c.points[i-1].Plan, c.points[i].Plan) {
			fmt.Fprintf(w, "      %s\n", words)
		}
	}
}

func (c *curve) json(in plan.Input) any {
	type point struct {
		Scale       float64                   `json:"scale"`
		Cost        float64                   `json:"cost"`
		LowerBound  float64                   `json:"lower_bound"`
		Gap         float64                   `json:"gap"`
		Servers     int                       `json:"servers"`
		Assignment  map[string]planAssignment `json:"assignment"`
		Homogeneous map[string]float64        `json:"homogeneous"`
	}
	type regime struct {
		From       float64                   `json:"from"`
		To         float64                   `json:"to"`
		Assignment map[string]planAssignment `json:"assignment"`
		Changes    []string                  `json:"changes"`
	}
	out := struct {
		Points  []point  `json:"points"`
		Regimes []regime `json:"regimes"`
		Ended   string   `json:"ended,omitempty"`
	}{Points: []point{}, Regimes: []regime{}}
	for i, p := range c.points {
		row := point{p.Scale, cents(p.Plan.Cost), cents(p.Plan.LowerBound), p.Plan.Gap(), p.Plan.Most(in),
			assignmentJSON(in, p.Plan.Needs.Architecture), map[string]float64{}}
		for b, u := range c.blocks {
			if cost := c.scaled[b][i]; cost > 0 {
				row.Homogeneous[in.HW.Units[u].Name] = cents(cost)
			}
		}
		out.Points = append(out.Points, row)
	}
	for _, r := range c.regimes {
		out.Regimes = append(out.Regimes, regime{r.From, r.To, assignmentJSON(in, r.Architecture), append([]string{}, r.Words...)})
	}
	if c.broke != nil {
		out.Ended = c.broke.Error()
	}
	return out
}

// figure draws cost against SLA, both on logarithmic axes (Figure 6).
func (c *curve) figure(in plan.Input) chart.Figure {
	panel := chart.Panel{Title: "Cost against SLA", X: "multiple of the SLA", Y: in.HW.Currency, LogX: true, LogY: true}
	line := chart.Line{Name: "planned"}
	for _, p := range c.points {
		line.X, line.Y = append(line.X, p.Scale), append(line.Y, p.Plan.Cost)
	}
	panel.Lines = append(panel.Lines, line)
	for b, u := range c.blocks {
		l := chart.Line{Name: "all " + in.HW.Units[u].Name, X: line.X, Y: c.scaled[b], Dashed: true}
		panel.Lines = append(panel.Lines, l)
	}
	return chart.Figure{Name: "cost-against-sla", Panels: []chart.Panel{panel}, Height: 4}
}
