package nbd_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	nbdtest.Need(b, "fio", "qemu-nbd", "nbdkit")
	servers := []struct{ name, uri string }{
		{"ours", ours(b)},
		{"qemu-nbd", peer(b, func(socket, image string) []string {
			return []string{"qemu-nbd", "-t", "-e", "8", "-f", "raw", "-k", socket, image}
		})},
		{"nbdkit", peer(b, func(socket, image string) []string {
			return []string{"nbdkit", "-f", "-U", socket, "file", image}
		})},
	}
	for _, job := range nbdtest.Loads {
		b.Run(job.Name, func(b *testing.B) {
			figures := map[string][]float64{}
			for range 3 {
				for _, s := range servers {
					syscall.Sync() // what the one before left to be written is not this one's
					figures[s.name] = append(figures[s.name], nbdtest.Load(b, s.uri, job.Args))
				}
			}
			middle := func(name string) float64 { slices.Sort(figures[name]); return figures[name][1] }
			b.ReportMetric(0, "ns/op") // of no meaning here
			if strings.HasPrefix(job.Name, "seq") {
				b.ReportMetric(middle("ours")/1e6, "MB/s")
			} else {
				b.ReportMetric(middle("ours")/4096, "iops")
			}
			b.ReportMetric(middle("ours")/middle("qemu-nbd"), "x-qemu-nbd")
			b.ReportMetric(middle("ours")/middle("nbdkit"), "x-nbdkit")
		})
	}
}

func image(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "image")
	nbdtest.Fill(b, path, 1<<30, true)
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
