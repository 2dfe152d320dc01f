package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/sim/datacenter"
)

// datacenterFlags are which datacenter is simulated, and how busy it is.
type datacenterFlags struct {
	name        string
	servers     []string
	utilisation float64
	scaling     string
}

func (f *datacenterFlags) register(cmd *cobra.Command, columns string) {
	cmd.Flags().StringVar(&f.name, "datacenter", "", "a generated datacenter, DC-0 to DC-9 (default DC-9 when no files are named)")
	cmd.Flags().StringArrayVar(&f.servers, "servers", nil, "the servers file ("+columns+"); may be given again")
	cmd.Flags().Float64Var(&f.utilisation, "utilisation", 0, "scale the servers' utilisation to this average, between 0 and 1 (default: as it is)")
	cmd.Flags().StringVar(&f.scaling, "scaling", "linear", "how to scale it: "+strings.Join(datacenter.Scalings, ", "))
}

// check refuses contradictions. The servers file goes with the files of flag, of
// which there are files.
func (f *datacenterFlags) check(cmd *cobra.Command, flag string, files int) error {
	switch {
	case f.name != "" && files+len(f.servers) > 0:
		return input.Errorf("--datacenter", "give either a datacenter or the files %s and --servers", flag)
	case files == 0 && len(f.servers) > 0:
		return input.Errorf(flag, "name the file that goes with --servers %s", f.servers[0])
	case files > 0 && len(f.servers) == 0:
		return input.Errorf("--servers", "name the servers file that goes with %s", flag)
	case cmd.Flags().Changed("utilisation") && !(f.utilisation > 0 && f.utilisation < 1):
		return input.Errorf("--utilisation", "%v is not between 0 and 1", f.utilisation)
	case !slices.Contains(datacenter.Scalings, f.scaling):
		return input.Errorf("--scaling", "unknown scaling %q; there are %s", f.scaling, strings.Join(datacenter.Scalings, ", "))
	}
	return nil
}

// generate generates the datacenter that was named.
func (f *datacenterFlags) generate(o datacenter.Options) (*datacenter.Datacenter, error) {
	p, err := datacenter.Find(cmp.Or(f.name, "DC-9"))
	if err != nil {
		return nil, err
	}
	return datacenter.Generate(p, o), nil
}

// scaled returns the datacenter scaled to --utilisation.
func (f *datacenterFlags) scaled(d *datacenter.Datacenter) (*datacenter.Datacenter, error) {
	if f.utilisation == 0 {
		return d, nil
	}
	return d.Scaled(f.scaling, f.utilisation)
}
