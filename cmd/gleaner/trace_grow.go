package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/grow"
	"gleaner/trace/program"
)

func newTraceGrow() *cobra.Command {
	var nodes []string
	var scale int
	var seed uint64
	var out string
	var beats time.Duration
	cmd := &cobra.Command{
		Use:   "grow PROGRAM",
		Short: "Write the traffic of a larger scale from a learned program",
		Long: `Write the traffic of any scale from a program that 'gleaner trace mine' learned,
as a trace in the common record, node after node. Values that only a reply can give
are placeholders in braces.`,
		Example: `  gleaner trace grow wordcount.yaml --scale 500 --out n500.jsonl.gz
  gleaner trace grow wordcount.yaml --nodes datanode=60000 | head`,
		Args: oneProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readProgram(args[0])
			if err != nil {
				return err
			}
			setting := grow.Setting{Scale: scale, Beats: beats, Nodes: map[string]int{}}
			if err := addNodes(setting.Nodes, nodes); err != nil {
				return err
			}
			if setting, err = grow.Resolve(p, setting); err != nil {
				return err
			}
			if sameFile(args[0], out) {
				return input.Errorf("--out", "%s is the program itself", out)
			}
			sayDoubts(cmd, p, setting.Scale)
			return saveTrace(cmd, "--out", out, func(w *trace.Writer) error { return writeGrown(cmd, p, setting, seed, w) })
		},
	}
	cmd.Flags().StringArrayVar(&nodes, "nodes", nil, "how many nodes of a type, as TYPE=N")
	cmd.Flags().IntVar(&scale, "scale", 0, "the scale n (default: what --nodes implies)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of generated values")
	cmd.Flags().DurationVar(&beats, "beats", 0, "how long heartbeats go on (default: until the last node is done)")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, .gz or .zst to compress (default: standard output)")
	return cmd
}

// sayDoubts prints the counts for which formulas that fit equally well differ at this
// scale, and the scale to record that would decide.
func sayDoubts(cmd *cobra.Command, p *program.Program, scale int) {
	largest := slices.Max(append([]int{1}, p.Scales...))
	for _, d := range p.Doubts(scale) {
		says := make([]string, len(d.Formulas))
		for i, f := range d.Formulas {
			says[i] = fmt.Sprintf("%s = %d", f, d.Values[i])
		}
		next := largest + 1
		for next = range program.Scales(largest, min(scale, 100*largest)) {
			if len(p.Doubts(next)) > 0 {
				break
			}
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "gleaner: not sure of the %s at n = %d: %s; record n = %d to tell\n", d.What, scale, strings.Join(says, " or "), next)
	}
}

func addNodes(to map[string]int, nodes []string) error {
	for _, s := range nodes {
		at := strings.LastIndexByte(s, '=')
		if at < 0 {
			return input.Errorf("--nodes", "%q is not TYPE=N", s)
		}
		n, err := strconv.Atoi(s[at+1:])
		if err != nil {
			return input.Errorf("--nodes", "%q: %q is not a number", s, s[at+1:])
		}
		if before, twice := to[s[:at]]; twice {
			return input.Errorf("--nodes", "%q: there are %d of them already", s, before)
		}
		to[s[:at]] = n
	}
	return nil
}

func writeGrown(cmd *cobra.Command, p *program.Program, setting grow.Setting, seed uint64, w *trace.Writer) error {
	bar := newProgress(cmd, fmt.Sprintf("growing to n = %d", setting.Scale), 0)
	defer bar.finish()
	written := 0
	for c := range grow.Calls(p, setting, rand.New(rand.NewPCG(seed, 0))) {
		if written++; written%4096 == 0 && cmd.Context().Err() != nil {
			return cmd.Context().Err()
		}
		bar.add(1)
		if err := w.Write(c); err != nil {
			return err
		}
	}
	return nil
}
