package engine

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var rewrite = flag.Bool("rewrite", false, "update the embedded sources")

// TestSourcesAreThoseOfTheModule: what is embedded is the modules, in the versions that are named.
func TestSourcesAreThoseOfTheModule(t *testing.T) {
	for _, m := range []struct {
		name    string
		sources []byte
		version string
	}{
		{"etcd", etcdSources, "go.etcd.io/etcd/server/v3 v" + EtcdVersion},
		{"kubernetes", kubernetesSources, "k8s.io/kubernetes v" + KubernetesVersion},
		{"node", nodeSources, "github.com/containerd/containerd/v2 v" + ContainerdVersion},
	} {
		files, err := filepath.Glob("../" + m.name + "/*")
		if err != nil {
			t.Fatal(err)
		}
		var archive txtar.Archive
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			archive.Files = append(archive.Files, txtar.File{Name: filepath.Base(f), Data: text})
		}
		want := txtar.Format(&archive)
		if *rewrite {
			if err := os.WriteFile(m.name+".txtar", want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !bytes.Equal(want, m.sources) {
			t.Errorf("the sources differ from lab/%s; run 'go generate ./lab/engine'", m.name)
		}
		if !bytes.Contains(m.sources, []byte(m.version)) {
			t.Errorf("lab/%s does not build %s", m.name, m.version)
		}
	}
}

// TestWithoutGo: what is missing is named.
func TestWithoutGo(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if _, err := BuildEtcd(t.Context(), func() { t.Error("it is not built") }); !errors.Is(err, ErrNoGo) {
		t.Error(err)
	}
}

// TestEndsBeforeItServes: an engine that cannot start says why.
func TestEndsBeforeItServes(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	_, err = Start(t.Context(), "engine", t.TempDir(), exec.Command(sh, "-c", "echo no room; exit 3"), func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
}

// TestInUse: a second engine is not started on the data of one that runs, and the first keeps its log.
func TestInUse(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	begin := func() (*Process, error) {
		return Start(t.Context(), "engine", dir, exec.Command(sleep, "60"), running)
	}
	p, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := os.WriteFile(p.Log, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if text, err := os.ReadFile(p.Log); err != nil || string(text) != "mine" {
		t.Errorf("the log has %q, %v", text, err)
	}
	p.Kill()
	if p, err = begin(); err != nil {
		t.Fatalf("after the first was killed: %v", err)
	}
	p.Stop()
}
