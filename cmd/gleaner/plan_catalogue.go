package main

import (
	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/plan/spec"
)

func newPlanCatalogue() *cobra.Command {
	payment := "hourly"
	cmd := &cobra.Command{
		Use:   "catalogue FILE.csv",
		Short: "Turn a list of rented servers of fixed shapes into a hardware document",
		Long: `Catalogue reads shapes that are rented as they are (vCPUs, memory, disks, a price an hour)
from a CSV file and prints the hardware document for 'gleaner plan'. Its prices, and with
them the cost of a plan, are a month's, of 730 hours.

What is paid hourly or on the spot can be rented for some hours of the day, if the rates of an
SLA change over the day. With two columns the first is the price of servers for the whole month.`,
		Example: `  gleaner plan examples scc
  gleaner plan catalogue scc/catalogue.csv > shapes.xml
  gleaner plan catalogue scc/catalogue.csv --pay reserved > shapes.xml
  gleaner plan catalogue scc/catalogue.csv --pay reserved,hourly > shapes.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Errorf("", "name one CSV file; see 'gleaner plan catalogue --help'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			columns, err := spec.ParsePayment(payment)
			if err != nil {
				return input.Errorf("--pay", "%v", err)
			}
			data, err := readSpec(args[0], args[0])
			if err != nil {
				return err
			}
			out, err := spec.Catalogue(args[0], data, columns)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, map[string]string{"document": string(out)})
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	cmd.Flags().StringVar(&payment, "pay", payment, "column of the price: hourly, reserved or spot; or two, for the month and by the hour")
	return cmd
}
