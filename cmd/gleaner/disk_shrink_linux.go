package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/web"
)

func newDiskShrink() *cobra.Command {
	var o web.DiskOrder
	cmd := &cobra.Command{
		Use:   "shrink NAME",
		Short: "Make a disk take less space",
		Long: `Shrink compresses what a disk or a snapshot has, keeps what is equal to other packed data once, and
with --shards keeps shards with parity in the place of whole replicas, so that as many servers may be lost as before.
The disk can be used meanwhile, and written afterwards: what is written is not compressed until the next time.
What would not get smaller is left as it is.`,
		Example: `  gleaner disk shrink archive
  gleaner disk shrink archive --level best --shards 4`,
		Args: oneArg("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			return runDiskShrink(cmd, o)
		},
	}
	cmd.Flags().StringVar(&o.Level, "level", "fast", "how hard to compress: fast, better or best")
	cmd.Flags().IntVar(&o.Shards, "shards", 0, "cut what is kept into so many shards, each on another server, with parity (default whole replicas)")
	return cmd
}

func runDiskShrink(cmd *cobra.Command, o web.DiskOrder) error {
	if _, err := fabric.CheckForm(o.Level, o.Shards); err != nil {
		return badArgument(web.ProblemOf(err))
	}
	c, err := newDiskClient(cmd)
	if err != nil {
		return err
	}
	if err := c.expectDisks(); err != nil {
		return err
	}
	bar := newProgress(cmd, "packing", 0)
	var s *fabric.Shrunk
	err = c.do(func() error {
		s, err = follow[fabric.Shrunk](c, "shrink", o, bar)
		return err
	})
	bar.finish()
	if err != nil {
		return err
	}
	if wantJSON(cmd) {
		return printJSON(cmd, s)
	}
	if s.Before == 0 && s.Shared == 0 {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s would not get smaller\n", s.Name)
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "packed %s: %s in the place of %s, %s shared\n", s.Name, cluster.Bytes(s.After).Text(), cluster.Bytes(s.Before).Text(), counted(s.Shared, "extent"))
	return err
}
