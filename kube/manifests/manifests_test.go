package manifests

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"text/template"
)

// chart renders the chart as Helm does: it has Helm's names and its function required.
func chart(t *testing.T, image string) (string, error) {
	t.Helper()
	files, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	required := func(says string, value any) (any, error) {
		if value == nil || value == "" {
			return nil, errors.New(says)
		}
		return value, nil
	}
	parsed, err := template.New("chart").Funcs(template.FuncMap{"required": required}).Parse(string(files["templates/gleaner.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{"Release": map[string]any{"Namespace": "here"}, "Values": map[string]any{"image": image}})
	return out.String(), err
}

// The chart installs what the manifests do, but for the namespace, which Helm makes.
func TestChartInstallsTheManifests(t *testing.T) {
	want, err := Write(Install{Namespace: "here", Image: "i:1"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := chart(t, "i:1")
	if err != nil {
		t.Fatal(err)
	}
	all, few := strings.Split(string(want), "---\n"), strings.Split(got, "---\n")
	if len(few) != len(all)-1 {
		t.Fatalf("%d objects, the manifests have %d", len(few), len(all))
	}
	i := 0
	for _, object := range all {
		if strings.Contains(object, "kind: Namespace\n") {
			continue
		}
		if few[i] != object {
			t.Errorf("the chart has\n%s\nthe manifests have\n%s", few[i], object)
		}
		i++
	}
}

// Without an image nothing is installed, and Helm says what is missing.
func TestChartNeedsAnImage(t *testing.T) {
	if _, err := chart(t, ""); err == nil || !strings.Contains(err.Error(), "the image of gleaner-kube") {
		t.Error(err)
	}
}
