// Package manifests is what is installed in a cluster, as YAML: the schema of HarvestJobs,
// their priority, the controller and the agents with no more rights than they need.
package manifests

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"text/template"
)

//go:embed *.yaml
var files embed.FS

// An Install says what differs from cluster to cluster.
type Install struct {
	Namespace string
	Image     string // of gleaner-kube
}

// Chart is the files of a Helm chart that installs the same, by name. The schema is one of
// its templates, because Helm never removes what is in crds.
func Chart() (map[string][]byte, error) {
	text, err := Write(Install{Namespace: "{{ .Release.Namespace }}", Image: `{{ required "image: the image of gleaner-kube" .Values.image }}`})
	if err != nil {
		return nil, err
	}
	var kept [][]byte
	for _, object := range bytes.Split(text, []byte("---\n")) {
		if !bytes.Contains(object, []byte("kind: Namespace\n")) { // Helm makes it: --create-namespace
			kept = append(kept, object)
		}
	}
	return map[string][]byte{
		"Chart.yaml":             []byte("apiVersion: v2\nname: gleaner\ndescription: Batch jobs on what the services of a cluster do not use.\nversion: 0.1.0\n"),
		"values.yaml":            []byte("# The image of gleaner-kube; it has no default.\nimage: \"\"\n"),
		"templates/gleaner.yaml": bytes.Join(kept, []byte("---\n")),
	}, nil
}

// Write is everything to apply, in order.
func Write(i Install) ([]byte, error) {
	names, err := fs.Glob(files, "*.yaml") // in the order of their names
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for _, name := range names {
		t, err := template.ParseFS(files, name)
		if err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
		if all.Len() > 0 && !bytes.HasSuffix(all.Bytes(), []byte("---\n")) {
			all.WriteString("---\n")
		}
		if err := t.Execute(&all, i); err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
	}
	return all.Bytes(), nil
}
