// Package manifests is what is installed in a cluster, as YAML: the schema of HarvestJobs,
// their priority, the controller and the agents with no more rights than they need.
//
// The files are templates of a Helm chart; they use no more of Helm than Write knows.
package manifests

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"text/template"
)

//go:embed *.yaml
var files embed.FS

// templates are the files of the chart, in the order in which they are applied.
var templates = []string{"gleaner.dev_harvestjobs.yaml", "install.yaml", "node.yaml"}

// An Install says what differs from cluster to cluster.
type Install struct {
	Namespace string
	Image     string   // of gleaner-kube
	Volume    string   // the size of the volume that the history is kept on; empty: none
	Args      []string // more arguments of the controller
}

// Chart is the files of a Helm chart that installs the same, by name. The schema is one of
// its templates, because Helm never removes what is in crds.
func Chart() (map[string][]byte, error) {
	chart := map[string][]byte{
		"Chart.yaml": []byte("apiVersion: v2\nname: gleaner\ndescription: Batch jobs on what the services of a cluster do not use.\nversion: 0.1.0\n"),
		"values.yaml": []byte(`# The image of gleaner-kube; it has no default.
image: ""
# The size of the volume that the history is kept on, as 10Gi. Without it, and without --store
# among args, the history is forgotten when the controller ends.
volume: ""
# More arguments of the controller, as --policy=primary.
args: []
`),
	}
	for _, name := range templates {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		chart["templates/"+name] = text
	}
	return chart, nil
}

// Write is everything to apply, in order.
func Write(i Install) ([]byte, error) {
	values := map[string]any{
		"Release": map[string]any{"Namespace": i.Namespace},
		"Values":  map[string]any{"image": i.Image, "volume": i.Volume, "args": i.Args},
	}
	var all bytes.Buffer
	for _, name := range append([]string{"namespace.yaml"}, templates...) {
		t, err := template.New(name).Funcs(template.FuncMap{"required": required, "quote": strconv.Quote}).ParseFS(files, name)
		if err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
		if all.Len() > 0 {
			all.WriteString("---\n")
		}
		if err := t.Execute(&all, values); err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
	}
	return all.Bytes(), nil
}

// required is Helm's function of that name.
func required(says, value string) (string, error) {
	if value == "" {
		return "", errors.New(says)
	}
	return value, nil
}
