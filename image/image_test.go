package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// unpack returns the files of an archive.
func unpack(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// follow reads the blob of a descriptor, which must be as it says.
func follow(t *testing.T, files map[string][]byte, d descriptor, into any) []byte {
	t.Helper()
	text, there := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if !there || int64(len(text)) != d.Size || digest(text) != d.Digest {
		t.Fatalf("%s of %d bytes is not there", d.Digest, d.Size)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// From the index on, every blob is where it is said to be, and the program comes out again.
func TestArchiveLeadsToTheProgram(t *testing.T) {
	i := Image{Name: "example.com/a:1", Architecture: "arm64", Program: []byte("the program"), Path: "a", Args: []string{"b"}, User: "7"}
	var out, again bytes.Buffer
	if err := errors.Join(Write(&out, i), Write(&again, i)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same program gives other bytes")
	}
	files := unpack(t, &out)
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", files["oci-layout"])
	}
	var x index
	if err := json.Unmarshal(files["index.json"], &x); err != nil {
		t.Fatal(err)
	}
	var m manifest
	follow(t, files, x.Manifests[0], &m)
	var c config
	follow(t, files, m.Config, &c)
	if c.Architecture != "arm64" || c.Config.User != "7" || strings.Join(c.Config.Entrypoint, " ") != "/a b" || x.Manifests[0].Annotations["io.containerd.image.name"] != i.Name {
		t.Errorf("%+v", c)
	}
	plain, err := gzip.NewReader(bytes.NewReader(follow(t, files, m.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	if digest(layer) != c.RootFS.DiffIDs[0] {
		t.Error("the layer is not the one of the configuration")
	}
	if got := unpack(t, bytes.NewReader(layer)); len(got) != 1 || string(got["a"]) != "the program" {
		t.Errorf("%q", got)
	}
}
