package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gleaner/fabric"
	"gleaner/web"
)

func newDiskRetire() *cobra.Command {
	undo := false
	cmd := &cobra.Command{
		Use:   "retire DISK",
		Short: "Empty a disk that a server lends, so that it can be taken away",
		Long: `Retire has a disk get no more data, and what it has copied to other disks. It goes on in the
background where the disks stay open ('gleaner up', 'gleaner lab fabric'), or at once with 'gleaner curate scan retired'.
'gleaner disk df' calls the disk retiring, and retired when it is empty: then it can be taken away, and nothing was
ever without a copy. DISK is its name there.`,
		Example: `  gleaner disk df
  gleaner disk retire 4f1c22ab9d03e871
  gleaner disk retire 4f1c22ab9d03e871 --undo`,
		Args: oneArg("disk"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newDiskClient(cmd)
			if err != nil {
				return err
			}
			if err := c.expectDisks(); err != nil {
				return err
			}
			what := "retire"
			if undo {
				what = "reinstate"
			}
			var after fabric.Lent
			if err := c.ask(what, web.DiskOrder{Name: args[0]}, &after); err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, after)
			}
			if after.Stuck > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), leaves(after))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "disk %s of server %s is %s\n", after.Disk, after.Server, after.State)
			return err
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "use it again")
	return cmd
}
