package main

import (
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"gleaner/control/jobfile"
	"gleaner/input"
	"gleaner/kube/api/v1alpha1"
)

func newJob() *cobra.Command {
	var image string
	cmd := &cobra.Command{
		Use:     "job FILE",
		Short:   "Print a job file as a HarvestJob",
		Example: "  gleaner-kube job examples/primes.yaml --image busybox | kubectl create -f -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if image == "" {
				return input.Errorf("--image", "is needed: the image that the commands run in")
			}
			file, err := os.Open(args[0])
			if err != nil {
				return input.Errorf("", "%v", err)
			}
			defer file.Close()
			j, err := jobfile.Read(args[0], file)
			if err != nil {
				return err
			}
			h, err := v1alpha1.FromJob(j, image)
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(h)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&image, "image", "", "the image that the commands run in")
	return cmd
}
