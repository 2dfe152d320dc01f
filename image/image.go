// Package image writes images of containers without a daemon: one static program and how it
// is started, as an archive in the layout of the Open Container Initiative, which containerd,
// podman, skopeo and Docker from version 25 on read. The same program gives the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
)

// An Image is one program.
type Image struct {
	Name         string // as registry.example.com/gleaner-kube:1
	Architecture string // as Go calls it, amd64
	Program      []byte // a static binary for Linux
	Path         string // of the program, without a slash before it
	Args         []string
	User         string // as 65532; empty: root
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// A descriptor says where a blob is.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type config struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		User       string   `json:"User,omitempty"`
		Entrypoint []string `json:"Entrypoint"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Write writes an image as an archive.
func Write(w io.Writer, i Image) error {
	if err := write(tar.NewWriter(w), i); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

func write(to *tar.Writer, i Image) error {
	layer, packed, err := i.layer()
	if err != nil {
		return err
	}
	c := config{Architecture: i.Architecture, OS: "linux"}
	c.Config.User, c.Config.Entrypoint = i.User, append([]string{"/" + i.Path}, i.Args...)
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest(layer)}
	configText, err := json.Marshal(c)
	if err != nil {
		return err
	}
	manifestText, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeManifest,
		Config: describe(typeConfig, configText), Layers: []descriptor{describe(typeLayer, packed)}})
	if err != nil {
		return err
	}
	named := describe(typeManifest, manifestText)
	named.Platform = map[string]string{"architecture": i.Architecture, "os": "linux"}
	named.Annotations = map[string]string{"org.opencontainers.image.ref.name": i.Name, "io.containerd.image.name": i.Name}
	indexText, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{named}})
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", indexText},
		{blob(manifestText), manifestText}, {blob(configText), configText}, {blob(packed), packed},
	} {
		if err := put(to, f.name, 0o644, f.text); err != nil {
			return err
		}
	}
	return to.Close()
}

// layer is the file system of the image, and the same packed.
func (i Image) layer() (plain, packed []byte, err error) {
	var files, zipped bytes.Buffer
	to := tar.NewWriter(&files)
	if err := put(to, i.Path, 0o755, i.Program); err != nil {
		return nil, nil, err
	}
	if err := to.Close(); err != nil {
		return nil, nil, err
	}
	pack := gzip.NewWriter(&zipped)
	if _, err := pack.Write(files.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := pack.Close(); err != nil {
		return nil, nil, err
	}
	return files.Bytes(), zipped.Bytes(), nil
}

// put adds a file that has no time and belongs to root.
func put(to *tar.Writer, name string, mode int64, text []byte) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := to.Write(text)
	return err
}

func describe(mediaType string, text []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(text), Size: int64(len(text))}
}

func digest(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }

func blob(text []byte) string { return fmt.Sprintf("blobs/sha256/%x", sha256.Sum256(text)) }
