package kube_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the map of this module: which rooms of Gleaner each of its rooms may import.
// As in the main module's layers_test.go, it is a statement of policy.
var mayImport = map[string][]string{
	".":             {"cluster", "kube/api/v1alpha1"}, // a world
	"api/v1alpha1":  {"cluster", "input"},
	"manifests":     {},
	"agent":         {"cluster", "harvest", "kube", "local/cgroup", "local/proc"},
	"controller":    {"classify", "cluster", "control", "control/diary", "harvest", "history", "history/prometheus", "kube", "kv"},
	"lab":           {"cluster", "harvest", "kube", "kube/agent", "kube/api/v1alpha1", "sim/compute", "sim/datacenter", "simulation"},
	"cmd/image":     {"image", "input"},
	"testdata/task": {},
	"cmd/gleaner-kube": {"cluster", "control", "control/jobfile", "harvest", "history", "history/prometheus", "input", "kube", "kube/agent", "kube/api/v1alpha1", "kube/controller", "kube/lab",
		"kube/manifests", "kv", "kv/cassandra", "kv/mem", "kv/pebble", "sim/datacenter", "simulation"},
}

// pure rooms have no clock, disk, network or goroutine.
var pure = []string{"api/v1alpha1"}

// unfit is what a pure room may not import.
var unfit = []string{"os", "net", "net/http", "sync", "log/slog", "math/rand/v2", "sigs.k8s.io/controller-runtime/pkg/client"}

func TestLayers(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(name))
		seen[room] = true
		allowed, known := mayImport[room]
		if !known {
			t.Errorf("%s: the room %s is not on the map", name, room)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			target, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if ours, ok := strings.CutPrefix(target, "gleaner/"); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s: %s may not import %s", name, room, target)
			}
			if slices.Contains(pure, room) && slices.Contains(unfit, target) {
				t.Errorf("%s: a pure room may not import %s", name, target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for room := range mayImport {
		if !seen[room] {
			t.Errorf("the room %s is on the map and has no files", room)
		}
	}
}

// TestMainModuleKnowsNoKubernetes: what this module needs never enters the main one.
func TestMainModuleKnowsNoKubernetes(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "k8s.io/") {
		t.Error("go.mod of the main module requires a module of k8s.io")
	}
}
