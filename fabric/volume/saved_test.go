package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/pack"
)

// TestSpaceSaved writes two disk images of real files, tar files of modules that this one needs, and makes them smaller in every way that there is. The second image has one file in 500 changed
// in place. It prints what the disks hold after each step; both images are read again after each.
func TestSpaceSaved(t *testing.T) {
	t.Parallel()
	size := 12 << 20
	if os.Getenv("GLEANER_LONG") != "" {
		size = 128 << 20
	}
	ctx := context.Background()
	s, p := spaceInDirectories(t, 6)
	first, second := moduleImage(t, size, 0), moduleImage(t, size, 500)
	v, w := imported(t, s, "first", first), imported(t, s, "second", second)
	used := func() (sum int64) {
		for _, d := range p.disks {
			u := d.(plug).d.Usage()
			sum += u.Used - int64(disk.DefaultLog(256<<20))
		}
		return sum
	}
	written := used()
	t.Logf("%-44s %8.1f MiB", "two images, each on three disks", mib(written))
	last := written
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"compressed (fast)", func() error { return packAll(s, Form{Level: pack.Fast}) }},
		{"equal extents shared, and the rest packed", func() error { return errors.Join(dedupAll(s), packAll(s, Form{Level: pack.Fast})) }},
		{"compressed again (best)", func() error { return packAll(s, Form{Level: pack.Best}) }},
		{"coded: four shards, and two of parity", func() error { return packAll(s, Form{Level: pack.Best, Data: 4}) }},
	} {
		begun := time.Now()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		took, now := time.Since(begun), used()
		t.Logf("%-44s %8.1f MiB, %4.1f%% of what was written, in %s", step.what, mib(now), 100*float64(now)/float64(written), took.Round(time.Millisecond))
		if now > last || now == last && !strings.Contains(step.what, "again") { // space is given by whole blocks
			t.Errorf("%s saves nothing", step.what)
		}
		last = now
		for i, image := range [][]byte{first, second} {
			got := make([]byte, len(image))
			if err := []*Volume{v, w}[i].ReadAt(ctx, got, 0); err != nil || !bytes.Equal(got, image) {
				t.Fatalf("%s: image %d is other than was written, %v", step.what, i, err)
			}
		}
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// packAll packs the groups of each vDisk that are not in that form yet.
func packAll(s *Space, form Form) error {
	of := map[disk.VDiskID][]disk.GroupID{}
	for g, err := range s.maps.Groups(context.Background()) {
		if err != nil {
			return err
		}
		of[g.VDisk] = append(of[g.VDisk], g.ID)
	}
	for _, ids := range of {
		slices.Sort(ids)
		for len(ids) > 0 {
			n := min(len(ids), MaxPacked)
			if _, err := s.Pack(context.Background(), ids[:n], form); err != nil && !errors.Is(err, ErrMoot) {
				return err
			}
			ids = ids[n:]
		}
	}
	return nil
}

func dedupAll(s *Space) error {
	pairs, err := duplicates(s.maps)
	for _, p := range pairs {
		if err := s.Dedup(context.Background(), p.keep, p.gone); err != nil && !errors.Is(err, ErrMoot) {
			return err
		}
	}
	return err
}

// imported gives a vDisk with an image.
func imported(t *testing.T, s *Space, name string, image []byte) *Volume {
	t.Helper()
	ctx := context.Background()
	vd, err := s.Create(ctx, name, int64(len(image)), 3, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Open(ctx, vd.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	for _, err := range []error{v.WriteAt(ctx, image, 0, false), v.Flush(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// moduleImage is a tar file of the modules in the order of their names, up to a size. Of every so many files one begins with other bytes; none does if that is 0.
func moduleImage(t *testing.T, size, every int) []byte {
	t.Helper()
	listed, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cockroachdb/pebble/v2", "github.com/klauspost/compress", "golang.org/x/net", "golang.org/x/sys",
		"gonum.org/v1/gonum", "google.golang.org/grpc", "google.golang.org/protobuf", "honnef.co/go/tools").Output()
	if err != nil {
		t.Skipf("the go command lists no modules: %v", err)
	}
	var image bytes.Buffer
	out, files := tar.NewWriter(&image), 0
	add := func(root, path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if files++; every > 0 && files%every == 0 {
			copy(data, "changed in place")
		}
		name, _ := filepath.Rel(root, path)
		if err := out.WriteHeader(&tar.Header{Name: filepath.Join(filepath.Base(root), name), Size: int64(len(data)), Mode: 0o444, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	for _, root := range strings.Fields(string(listed)) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if image.Len() >= size {
				return fs.SkipAll
			}
			return add(root, path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return append(image.Bytes()[:min(size, image.Len())], make([]byte, max(0, size-image.Len()))...)
}
