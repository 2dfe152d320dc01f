package fabric_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gleaner/fabric"
	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
)

// serve offers all vDisks at a socket, and gives the URI of one of them.
func serve(t testing.TB, f *fabric.Front) func(name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nbd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- nbd.Serve(ctx, l, f.Exports(), nbd.Options{}) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return func(name string) string { return nbd.URI(l.Addr(), name, false) }
}

// An image goes in and out with the same hash: 1 GiB on one disk, and less on three data servers.
func TestNbdcopy(t *testing.T) {
	t.Parallel()
	nbdtest.Need(t, "nbdcopy")
	share := int64(8)
	if os.Getenv("GLEANER_LONG") != "" {
		share = 1
	}
	for _, tc := range []struct {
		name  string
		size  int64
		front *fabric.Front
		n     int
	}{
		{"one disk here", 1 << 30 / share, newFront(t, 1), 1},
		{"three data servers", 256 << 20 / share, newRack(t, 3).front(time.Minute), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			create(t, tc.front, "v", tc.size, tc.n)
			uri := serve(t, tc.front)("v")
			in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
			nbdtest.Fill(t, in, tc.size, false)
			nbdtest.RunTool(t, "nbdcopy", "--flush", in, uri)
			nbdtest.RunTool(t, "nbdcopy", uri, out)
			if a, b := nbdtest.Hash(t, in), nbdtest.Hash(t, out); a != b {
				t.Errorf("in %s, out %s", a, b)
			}
		})
	}
}

// qemu-io's patterns are read back, through a snapshot as well; nbdinfo lists both.
func TestQemu(t *testing.T) {
	t.Parallel()
	nbdtest.Need(t, "qemu-io", "nbdinfo")
	f := newFront(t, 3)
	create(t, f, "v", 64<<20, 3)
	uri := serve(t, f)
	io := func(name string, commands ...string) {
		t.Helper()
		args := []string{"-f", "raw"}
		if name == "s" {
			args = append(args, "-r")
		}
		for _, c := range commands {
			args = append(args, "-c", c)
		}
		if out := nbdtest.RunTool(t, "qemu-io", append(args, uri(name))...); strings.Contains(out, "failed") {
			t.Fatalf("%s: %s", name, out)
		}
	}
	io("v", "write -P 0x11 0 8M", "write -P 0x22 1000k 4k", "flush")
	if err := f.Snapshot(t.Context(), "v", "s"); err != nil {
		t.Fatal(err)
	}
	io("v", "write -P 0x33 4k 512", "write -z 6M 1M", "discard 7M 1M", "flush")
	io("v", "read -P 0x11 0 4k", "read -P 0x33 4k 512", "read -P 0x11 4608 3584", "read -P 0x22 1000k 4k", "read -P 0 6M 2M")
	io("s", "read -P 0x11 0 1000k", "read -P 0x22 1000k 4k", "read -P 0x11 6M 2M")
	var list struct {
		Exports []struct {
			Name     string `json:"export-name"`
			ReadOnly bool   `json:"is_read_only"`
		}
	}
	if err := json.Unmarshal([]byte(nbdtest.RunTool(t, "nbdinfo", "--list", "--json", uri(""))), &list); err != nil || len(list.Exports) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, e := range list.Exports {
		if e.ReadOnly != (e.Name == "s") {
			t.Errorf("%+v", e)
		}
	}
}

// fio writes and verifies on three replicas, while a data server ends and another comes back.
func TestFio(t *testing.T) {
	t.Parallel()
	nbdtest.Need(t, "fio")
	if !strings.Contains(nbdtest.RunTool(t, "fio", "--enghelp"), "nbd") {
		t.Skip("this fio has no nbd engine")
	}
	r := newRack(t, 4)
	f := r.front(time.Second)
	create(t, f, "v", 64<<20, 3)
	uri := serve(t, f)("v")
	for i, job := range []string{
		"--rw=randwrite --bs=4k --iodepth=16 --fsync=32",
		"--rw=write --bs=1m --iodepth=4 --fsync=4",
		"--rw=randrw --bsrange=512-96k --bs_unaligned --iodepth=16 --serialize_overlap=1",
		"--rw=randwrite --bs=4k --iodepth=8 --numjobs=4 --size=16m --offset_increment=16m",
	} {
		args := append([]string{"--name=v", "--ioengine=nbd", "--uri=" + uri, "--thread", "--size=64m", "--verify=crc32c",
			"--do_verify=1", "--verify_fatal=1", "--randseed=1", "--verify_state_save=0", "--output-format=terse"}, strings.Fields(job)...)
		s := r.servers[i]
		if i > 0 {
			await(t, "all is rebuilt", func() bool { return whole(t, f) })
		}
		time.AfterFunc(300*time.Millisecond, func() { s.stop() })
		nbdtest.RunTool(t, "fio", args...)
		<-s.ended
		s.stop = nil
		r.start(s)
	}
	await(t, "all is rebuilt", func() bool { return whole(t, f) })
}

// A file system of the kernel's, on a loop device over nbdfuse: it is made, filled while a data server is lost, unmounted, checked
// and read back.
func TestExt4(t *testing.T) {
	t.Parallel()
	nbdtest.Need(t, "nbdfuse", "losetup", "mkfs.ext4", "e2fsck")
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, device := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(device); err != nil {
			t.Skipf("this machine has no %s", device)
		}
	}
	r := newRack(t, 4)
	f := r.front(time.Second)
	create(t, f, "v", 192<<20, 3)
	dir := t.TempDir()
	files, mounted := filepath.Join(dir, "files"), filepath.Join(dir, "mounted")
	for _, d := range []string{files, mounted} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	fuse := exec.Command("nbdfuse", filepath.Join(files, "nbd"), serve(t, f)("v"))
	if err := fuse.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = exec.Command("umount", "-l", files).Run()
		_ = fuse.Wait()
	}()
	await(t, "nbdfuse", func() bool { _, err := os.Stat(filepath.Join(files, "nbd")); return err == nil })
	loop := strings.TrimSpace(nbdtest.RunTool(t, "losetup", "-f", "--show", filepath.Join(files, "nbd")))
	defer exec.Command("losetup", "-d", loop).Run()
	nbdtest.RunTool(t, "mkfs.ext4", "-q", "-F", loop)
	nbdtest.RunTool(t, "mount", loop, mounted)
	defer exec.Command("umount", "-l", mounted).Run()
	var want []string
	for i := range 40 {
		name := filepath.Join(mounted, fmt.Sprint("file", i))
		nbdtest.Fill(t, name, int64(1+i%4)<<20, false)
		want = append(want, nbdtest.Hash(t, name))
		if i == 15 {
			r.halt(r.servers[1])
		}
	}
	nbdtest.RunTool(t, "umount", mounted)
	nbdtest.RunTool(t, "e2fsck", "-f", "-n", loop)
	nbdtest.RunTool(t, "mount", loop, mounted)
	for i := range want {
		if got := nbdtest.Hash(t, filepath.Join(mounted, fmt.Sprint("file", i))); got != want[i] {
			t.Errorf("file%d has other bytes than were written", i)
		}
	}
	nbdtest.RunTool(t, "umount", mounted)
}
