package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// helmVersion is the Helm that is run if there is none on PATH.
const helmVersion = "helm.sh/helm/v3/cmd/helm@v3.19.0"

// helm is Helm's command line.
func helm(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if path, err := exec.LookPath("helm"); err == nil {
		return exec.Command(path, args...)
	}
	if os.Getenv("GLEANER_HELM") == "" {
		t.Skip("there is no helm; GLEANER_HELM=1 builds it, which takes minutes the first time")
	}
	cmd := exec.Command("go", append([]string{"run", helmVersion}, args...)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	return cmd
}

// objects are those of YAML, by kind and name.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(document, "---\n")), &o); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if o == nil {
			continue
		}
		meta, _ := o["metadata"].(map[string]any)
		kind, _ := o["kind"].(string)
		name, _ := meta["name"].(string)
		all[kind+" "+name] = o
	}
	return all
}

// Helm itself makes of the chart what the manifests have, but for the namespace, which it makes with
// --create-namespace.
func TestHelmRendersTheManifests(t *testing.T) {
	dir := t.TempDir()
	chart, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range chart {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []Install{{}, {Volume: "10Gi"}, {Args: []string{"--tenants=owner", "--prometheus=http://prometheus:9090"}}} {
		i.Namespace, i.Image = "here", "registry.example.com/gleaner-kube:1"
		args := []string{"template", "gleaner", dir, "--namespace", i.Namespace, "--set", "image=" + i.Image, "--set", "volume=" + i.Volume}
		if len(i.Args) > 0 {
			args = append(args, "--set", "args={"+strings.Join(i.Args, ",")+"}")
		}
		said, err := helm(t, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		text, err := Write(i)
		if err != nil {
			t.Fatal(err)
		}
		want, got := objects(t, string(text)), objects(t, string(said))
		delete(want, "Namespace here")
		if len(got) < 10 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: Helm makes\n%s\nthe manifests are\n%s", i, said, text)
		}
	}
	if said, err := helm(t, "lint", dir, "--set", "image=i").CombinedOutput(); err != nil {
		t.Errorf("lint: %v\n%s", err, said)
	}
	if said, err := helm(t, "template", "gleaner", dir).CombinedOutput(); err == nil || !strings.Contains(string(said), "image: the image of gleaner-kube") {
		t.Errorf("without an image: %v\n%s", err, said)
	}
}
