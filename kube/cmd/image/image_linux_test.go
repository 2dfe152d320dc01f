package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// blob is one of an archive, by its digest, which is checked.
func blob(t *testing.T, files map[string][]byte, digest string) []byte {
	t.Helper()
	kind, sum, _ := strings.Cut(digest, ":")
	text, there := files["blobs/"+kind+"/"+sum]
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); !there || kind != "sha256" || got != sum {
		t.Fatalf("the blob %s is missing or has the digest %s", digest, got)
	}
	return text
}

// untar reads an archive.
func untar(t *testing.T, r io.Reader) (files map[string][]byte, modes map[string]int64) {
	t.Helper()
	files, modes = map[string][]byte{}, map[string]int64{}
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name], modes[header.Name] = text, header.Mode
	}
}

// The image, unpacked by its index, has all that the program needs: it runs with nothing else
// in its root, as the user that the image names.
func TestTheImageRuns(t *testing.T) {
	if os.Getenv("GLEANER_IMAGE") == "" {
		t.Skip("GLEANER_IMAGE=1 builds gleaner-kube as an image has it, which takes minutes the first time")
	}
	if os.Geteuid() != 0 {
		t.Skip("a root of its own needs root")
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	if code := run([]string{"--out", out, "--name", "gleaner.local/gleaner-kube:test"}, t.Output(), t.Output()); code != 0 {
		t.Fatal("exit code", code)
	}
	archive, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := untar(t, bytes.NewReader(archive))
	var index, manifest struct {
		Manifests []struct{ Digest string }
		Config    struct{ Digest string }
		Layers    []struct{ Digest string }
	}
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
	}
	read := func(text []byte, to any) {
		t.Helper()
		if err := json.Unmarshal(text, to); err != nil {
			t.Fatal(err)
		}
	}
	read(files["index.json"], &index)
	read(blob(t, files, index.Manifests[0].Digest), &manifest)
	read(blob(t, files, manifest.Config.Digest), &config)
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest.Layers {
		packed, err := gzip.NewReader(bytes.NewReader(blob(t, files, layer.Digest)))
		if err != nil {
			t.Fatal(err)
		}
		all, modes := untar(t, packed)
		for name, text := range all {
			if err := os.WriteFile(filepath.Join(root, name), text, os.FileMode(modes[name])); err != nil {
				t.Fatal(err)
			}
		}
	}
	user, err := strconv.ParseUint(config.Config.User, 10, 32)
	if err != nil || user == 0 || config.Architecture != runtime.GOARCH {
		t.Fatalf("%+v: %v", config, err)
	}
	for args, want := range map[string]string{"version": "gleaner-kube", "manifests --image i:1": "kind: HarvestJob", "agent --node n1 --cgroups /": "neither control groups"} {
		cmd := exec.Command(config.Config.Entrypoint[0], append(config.Config.Entrypoint[1:], strings.Fields(args)...)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		if said, err := cmd.CombinedOutput(); !strings.Contains(string(said), want) {
			t.Errorf("%s: %v\n%s", args, err, said)
		}
	}
}
