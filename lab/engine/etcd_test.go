package engine

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var rewrite = flag.Bool("rewrite", false, "write the embedded sources anew")

// TestSourcesAreThoseOfTheModule: what is embedded is the module lab/etcd.
func TestSourcesAreThoseOfTheModule(t *testing.T) {
	files, err := filepath.Glob("../etcd/*")
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
		if err := os.WriteFile("etcd.txtar", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, etcdSources) {
		t.Error("the sources differ from lab/etcd; run 'go generate ./lab/engine'")
	}
	if !bytes.Contains(etcdSources, []byte("go.etcd.io/etcd/server/v3 v"+EtcdVersion)) {
		t.Errorf("the module does not build etcd %s", EtcdVersion)
	}
}
