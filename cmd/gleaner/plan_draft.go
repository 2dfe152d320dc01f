package main

import (
	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/draft"
)

func newPlanDraft() *cobra.Command {
	var files []string
	var limit int
	cmd := &cobra.Command{
		Use:   "draft DIR --trace FILE",
		Short: "Draft an application and an SLA from recorded calls",
		Long: `Draft writes DIR/app.yaml and DIR/sla.yaml from a trace (see 'gleaner trace'): a task for
every method, with the records it reads or writes, how large they are, how long a call
took and the calls it triggered; and the rate of the busiest minute. Comments
say what a trace does not show and must be completed by hand.`,
		Example: `  gleaner plan draft mine --trace calls.jsonl.gz
  gleaner plan --app mine/app.yaml --hw hardware.yaml --sla mine/sla.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one directory to write to; see 'gleaner plan draft --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(files) == 0 {
				return input.Errorf("--trace", "name a file of recorded calls")
			}
			if limit < 1 || limit > 150 {
				return input.Errorf("--limit", "%d is not from 1 to 150", limit)
			}
			var calls []*trace.Call
			for _, file := range files {
				some, err := readCalls(file)
				if err != nil {
					return err
				}
				calls = append(calls, some...)
			}
			if len(calls) == 0 {
				return input.Errorf("--trace", "%s holds no calls", files[0])
			}
			s := draft.Of(calls, limit)
			texts := map[string]string{"app.yaml": s.Application(), "sla.yaml": s.SLA()}
			return writeDocuments(cmd, args[0], []string{"app.yaml", "sla.yaml"}, func(name string) ([]byte, error) { return []byte(texts[name]), nil })
		},
	}
	cmd.Flags().StringArrayVar(&files, "trace", nil, "a `file` or folder of recorded calls; may be given again")
	cmd.Flags().IntVar(&limit, "limit", 60, "how many methods to list at most, the most called first")
	return cmd
}

func readCalls(file string) ([]*trace.Call, error) {
	r, err := trace.Open(file)
	if err != nil {
		return nil, input.Errorf("--trace", "%v", err)
	}
	defer r.Close()
	return r.ReadAll()
}
