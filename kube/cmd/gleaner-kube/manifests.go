package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"gleaner/input"
	"gleaner/kube/manifests"
)

func newManifests() *cobra.Command {
	i := manifests.Install{}
	var chart string
	cmd := &cobra.Command{
		Use:     "manifests",
		Short:   "Print what is to be installed in a cluster",
		Example: "  gleaner-kube manifests --image registry.example.com/gleaner-kube:1 | kubectl apply -f -\n  gleaner-kube manifests --chart gleaner && helm install gleaner ./gleaner -n gleaner-system --create-namespace --set image=registry.example.com/gleaner-kube:1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if chart != "" {
				for _, name := range []string{"image", "namespace", "volume", "controller-arg"} {
					if cmd.Flags().Changed(name) {
						return input.Errorf("--chart", "is given without --%s, which Helm sets", name)
					}
				}
				return writeChart(chart)
			}
			if i.Image == "" {
				return input.Errorf("--image", "is needed: the image of gleaner-kube")
			}
			if _, err := resource.ParseQuantity(i.Volume); i.Volume != "" && err != nil {
				return input.Errorf("--volume", "%q is no size, as 10Gi", i.Volume)
			}
			text, err := manifests.Write(i)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&i.Namespace, "namespace", "gleaner-system", "where the controller runs")
	cmd.Flags().StringVar(&i.Image, "image", "", "the image of gleaner-kube")
	cmd.Flags().StringVar(&i.Volume, "volume", "", "keep the history on a volume of `SIZE`, as 10Gi (default: none; see --store of 'gleaner-kube controller')")
	cmd.Flags().StringArrayVar(&i.Args, "controller-arg", nil, "one more argument of the controller, as --controller-arg=--policy=primary; may be given again")
	cmd.Flags().StringVar(&chart, "chart", "", "write a Helm chart to the new folder `DIR` instead")
	return cmd
}

// writeChart writes the chart to a folder that is not there yet.
func writeChart(dir string) error {
	files, err := manifests.Chart()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return input.Errorf("--chart", "%v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "templates"), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
