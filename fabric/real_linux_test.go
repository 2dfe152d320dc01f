package fabric_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/fabric"
	"gleaner/fabric/nbd"
)

// need skips a test whose tools are not installed.
func need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (Debian: qemu-utils, libnbd-bin, nbdkit, fio)", tool)
		}
	}
}

func run(t testing.TB, tool string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, strings.Join(args, " "), err, out)
	}
	return string(out)
}

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

func fill(t testing.TB, path string, size int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var seed [32]byte
	random := rand.NewChaCha8(seed)
	part := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(part)) {
		random.Read(part)
		if _, err := file.WriteAt(part, at); err != nil {
			t.Fatal(err)
		}
	}
}

func hash(t testing.TB, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// An image goes in and out with the same hash: 1 GiB on one disk, and less on three data servers.
func TestNbdcopy(t *testing.T) {
	need(t, "nbdcopy")
	for _, tc := range []struct {
		name  string
		size  int64
		front *fabric.Front
		n     int
	}{
		{"one disk here", 1 << 30, newFront(t, 1), 1},
		{"three data servers", 256 << 20, newRack(t, 3).front(time.Minute), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			create(t, tc.front, "v", tc.size, tc.n)
			uri := serve(t, tc.front)("v")
			in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
			fill(t, in, tc.size)
			run(t, "nbdcopy", "--flush", in, uri)
			run(t, "nbdcopy", uri, out)
			if a, b := hash(t, in), hash(t, out); a != b {
				t.Errorf("in %s, out %s", a, b)
			}
		})
	}
}

// qemu-io's patterns are read back, through a snapshot as well; nbdinfo lists both.
func TestQemu(t *testing.T) {
	need(t, "qemu-io", "nbdinfo")
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
		if out := run(t, "qemu-io", append(args, uri(name))...); strings.Contains(out, "failed") {
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
	if err := json.Unmarshal([]byte(run(t, "nbdinfo", "--list", "--json", uri(""))), &list); err != nil || len(list.Exports) != 2 {
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
	need(t, "fio")
	if !strings.Contains(run(t, "fio", "--enghelp"), "nbd") {
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
		run(t, "fio", args...)
		<-s.ended
		s.stop = nil
		r.start(s)
	}
	await(t, "all is rebuilt", func() bool { return whole(t, f) })
}

// BenchmarkPeers has fio load a vDisk on one disk in this process, on one data server and on three, and qemu-nbd and nbdkit with a
// file, all of 1 GiB and filled alike. It reports MB/s or operations a second on one disk here, and the ratio of each to qemu-nbd; the
// servers take turns, three times; the middle one of each counts. All data servers are in this process.
//
//	GLEANER_LONG=1 go test -run '^$' -bench Peers -benchtime 1x ./fabric
func BenchmarkPeers(b *testing.B) {
	if os.Getenv("GLEANER_LONG") == "" {
		b.Skip("takes four minutes: GLEANER_LONG=1")
	}
	need(b, "fio", "qemu-nbd", "nbdkit", "nbdcopy")
	image := filepath.Join(b.TempDir(), "image")
	fill(b, image, 1<<30)
	ours := func(f *fabric.Front, replicas int) string {
		create(b, f, "v", 1<<30, replicas)
		uri := serve(b, f)("v")
		run(b, "nbdcopy", "--flush", image, uri)
		return uri
	}
	peer := func(command ...string) string {
		dir := b.TempDir()
		socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "image")
		fill(b, file, 1<<30)
		for i := range command {
			command[i] = strings.NewReplacer("SOCKET", socket, "IMAGE", file).Replace(command[i])
		}
		cmd := exec.Command(command[0], command[1:]...)
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		await(b, command[0], func() bool {
			c, err := net.Dial("unix", socket)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		return "nbd+unix:///?socket=" + socket
	}
	servers := []struct{ name, uri string }{
		{"here", ours(newFront(b, 1), 1)},
		{"1server", ours(newLargeRack(b, 1).front(time.Minute), 1)},
		{"3servers", ours(newLargeRack(b, 3).front(time.Minute), 3)},
		{"qemu-nbd", peer("qemu-nbd", "-t", "-e", "8", "-f", "raw", "-k", "SOCKET", "IMAGE")},
		{"nbdkit", peer("nbdkit", "-f", "-U", "SOCKET", "file", "IMAGE")},
	}
	for _, job := range []struct{ name, args string }{
		{"seqread/1MiB/q4", "--rw=read --bs=1m --iodepth=4"},
		{"seqwrite/1MiB/q4", "--rw=write --bs=1m --iodepth=4"},
		{"randread/4KiB/q1", "--rw=randread --bs=4k --iodepth=1"},
		{"randread/4KiB/q16", "--rw=randread --bs=4k --iodepth=16"},
		{"randwrite/4KiB/q1", "--rw=randwrite --bs=4k --iodepth=1"},
		{"randwrite/4KiB/q16", "--rw=randwrite --bs=4k --iodepth=16"},
		{"randwrite/4KiB/q1/fsync1", "--rw=randwrite --bs=4k --iodepth=1 --fsync=1"},
		{"randwrite/4KiB/q1/8clients/fsync1", "--rw=randwrite --bs=4k --iodepth=1 --fsync=1 --numjobs=8"},
	} {
		b.Run(job.name, func(b *testing.B) {
			figures := map[string][]float64{}
			for range 3 {
				for _, s := range servers {
					figures[s.name] = append(figures[s.name], load(b, s.uri, job.args))
				}
			}
			middle := func(name string) float64 { slices.Sort(figures[name]); return figures[name][1] }
			b.ReportMetric(0, "ns/op") // of no meaning here
			if strings.HasPrefix(job.name, "seq") {
				b.ReportMetric(middle("here")/1e6, "MB/s")
			} else {
				b.ReportMetric(middle("here")/4096, "iops")
			}
			for _, s := range servers {
				if s.name != "qemu-nbd" {
					b.ReportMetric(middle(s.name)/middle("qemu-nbd"), s.name+"/qemu")
				}
			}
		})
	}
}

// load runs fio for a second and gives the bytes it moved in each.
func load(b *testing.B, uri, args string) float64 {
	b.Helper()
	out := filepath.Join(b.TempDir(), "out")
	all := append([]string{"--name=load", "--ioengine=nbd", "--uri=" + uri, "--thread", "--size=1g", "--time_based", "--runtime=1",
		"--group_reporting", "--output-format=json", "--output=" + out}, strings.Fields(args)...)
	run(b, "fio", all...)
	text, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	type moved struct {
		Bandwidth float64 `json:"bw_bytes"`
	}
	var report struct{ Jobs []struct{ Read, Write moved } }
	text = text[max(0, bytes.IndexByte(text, '{')):] // fio says first that it has connected
	if err := json.Unmarshal(text, &report); err != nil {
		b.Fatal(err)
	}
	return report.Jobs[0].Read.Bandwidth + report.Jobs[0].Write.Bandwidth
}

// A file system of the kernel's, on a loop device over nbdfuse: it is made, filled while a data server is lost, unmounted, checked
// and read back.
func TestExt4(t *testing.T) {
	t.Parallel()
	need(t, "nbdfuse", "losetup", "mkfs.ext4", "e2fsck")
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
	loop := strings.TrimSpace(run(t, "losetup", "-f", "--show", filepath.Join(files, "nbd")))
	defer exec.Command("losetup", "-d", loop).Run()
	run(t, "mkfs.ext4", "-q", "-F", loop)
	run(t, "mount", loop, mounted)
	defer exec.Command("umount", "-l", mounted).Run()
	var want []string
	for i := range 40 {
		name := filepath.Join(mounted, fmt.Sprint("file", i))
		fill(t, name, int64(1+i%4)<<20)
		want = append(want, hash(t, name))
		if i == 15 {
			r.halt(r.servers[1])
		}
	}
	run(t, "umount", mounted)
	run(t, "e2fsck", "-f", "-n", loop)
	run(t, "mount", loop, mounted)
	for i := range want {
		if got := hash(t, filepath.Join(mounted, fmt.Sprint("file", i))); got != want[i] {
			t.Errorf("file%d has other bytes than were written", i)
		}
	}
	run(t, "umount", mounted)
}
