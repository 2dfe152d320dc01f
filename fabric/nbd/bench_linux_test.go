package nbd_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
)

// BenchmarkPeers has fio load this server, qemu-nbd and nbdkit, each with a file
// of 1 GiB that was filled in the same way, and reports what we reach (MB/s or operations
// a second) and its ratio to theirs. The servers take turns, three times; the
// middle one of each counts.
//
//	GLEANER_LONG=1 go test -run '^$' -bench Peers -benchtime 1x ./fabric/nbd
func BenchmarkPeers(b *testing.B) {
	if os.Getenv("GLEANER_LONG") == "" {
		b.Skip("takes two minutes: GLEANER_LONG=1")
	}
	need(b, "fio", "qemu-nbd", "nbdkit")
	servers := []struct{ name, uri string }{
		{"ours", ours(b)},
		{"qemu-nbd", peer(b, func(socket, image string) []string {
			return []string{"qemu-nbd", "-t", "-e", "8", "-f", "raw", "-k", socket, image}
		})},
		{"nbdkit", peer(b, func(socket, image string) []string {
			return []string{"nbdkit", "-f", "-U", socket, "file", image}
		})},
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
				b.ReportMetric(middle("ours")/1e6, "MB/s")
			} else {
				b.ReportMetric(middle("ours")/4096, "iops")
			}
			b.ReportMetric(middle("ours")/middle("qemu-nbd"), "x-qemu-nbd")
			b.ReportMetric(middle("ours")/middle("nbdkit"), "x-nbdkit")
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

func image(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "image")
	fill(b, path, 1<<30)
	return path
}

func ours(b *testing.B) string {
	file, err := os.OpenFile(image(b), os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	offer := nbdtest.Offer{Export: nbd.Export{Name: "disk", Size: 1 << 30, MultiConn: true}, Device: nbdtest.NewFile(file)}
	return nbd.URI(serve(b, nbdtest.Exports{offer}, nbd.Options{}), "disk", false)
}

// peer starts another server and waits for its socket.
func peer(b *testing.B, command func(socket, image string) []string) string {
	socket := filepath.Join(b.TempDir(), "s")
	args := command(socket, image(b))
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for range 100 {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return nbd.URI(&net.UnixAddr{Net: "unix", Name: socket}, "", false)
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.Fatalf("%s does not listen", args[0])
	return ""
}
