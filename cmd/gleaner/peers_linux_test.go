package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gleaner/fabric/nbd/nbdtest"
	"gleaner/local/proc"
)

// BenchmarkPeers has fio load a vDisk inside 'gleaner up', on one data server and on three, and qemu-nbd and nbdkit with a
// file, all of 1 GiB and filled alike; each is a process of its own. It reports MB/s or operations a second inside 'gleaner up', the ratio of each to
// qemu-nbd, and what CPU time each took for a GiB, front and data servers together. The servers take turns, three times; the middle one of each counts.
//
//	GLEANER_LONG=1 go test -run '^$' -bench Peers -benchtime 1x ./cmd/gleaner
func BenchmarkPeers(b *testing.B) {
	if os.Getenv("GLEANER_LONG") == "" {
		b.Skip("takes four minutes: GLEANER_LONG=1")
	}
	nbdtest.Need(b, "fio", "qemu-nbd", "nbdkit", "nbdcopy")
	image := filepath.Join(b.TempDir(), "image")
	nbdtest.Fill(b, image, 1<<30, false)
	peers := []peer{
		insideUp(b),
		besideFront(b, 1),
		besideFront(b, 3),
		plainFile(b, "qemu-nbd", "-t", "-e", "8", "-f", "raw", "-k", "SOCKET", "IMAGE"),
		plainFile(b, "nbdkit", "-f", "-U", "SOCKET", "file", "IMAGE"),
	}
	for _, p := range peers {
		nbdtest.RunTool(b, "nbdcopy", "--flush", image, p.uri)
	}
	for _, load := range nbdtest.Loads {
		b.Run(load.Name, func(b *testing.B) {
			rates, costs := map[string][]float64{}, map[string][]float64{}
			for range 3 {
				for _, p := range peers {
					syscall.Sync() // what the one before left to be written is not this one's
					before := p.cpu(b)
					rate := nbdtest.Load(b, p.uri, load.Args)
					rates[p.name] = append(rates[p.name], rate)
					costs[p.name] = append(costs[p.name], (p.cpu(b)-before).Seconds()/(rate/(1<<30)))
				}
			}
			b.ReportMetric(0, "ns/op") // of no meaning here
			if strings.HasPrefix(load.Name, "seq") {
				b.ReportMetric(middle(rates["up"])/1e6, "MB/s")
			} else {
				b.ReportMetric(middle(rates["up"])/4096, "iops")
			}
			for _, p := range peers {
				b.ReportMetric(middle(rates[p.name])/middle(rates["qemu-nbd"]), p.name+"/qemu-nbd")
				b.ReportMetric(middle(costs[p.name]), p.name+"-cpu-s/GiB")
			}
		})
	}
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// A peer serves a disk of 1 GiB.
type peer struct {
	name      string
	uri       string
	processes []*os.Process
}

// cpu is what its processes have used.
func (p peer) cpu(b *testing.B) (used time.Duration) {
	b.Helper()
	for _, process := range p.processes {
		text := readText(b, filepath.Join("/proc", strconv.Itoa(process.Pid), "stat"))
		fields := strings.Fields(text[strings.LastIndexByte(text, ')'):]) // those after the name
		for _, field := range fields[12:14] {                             // utime and stime
			ticks, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			used += time.Duration(ticks) * proc.Tick
		}
	}
	return used
}

func insideUp(b *testing.B) peer {
	data := b.TempDir()
	cmd := exec.Command("gleaner", "up", "--data", data)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitSocket(b, filepath.Join(data, "fabric", "nbd.sock")) // else the next command would serve the disks itself
	nbdtest.RunTool(b, "gleaner", "disk", "create", "v", "1GiB", "--data", data)
	return peer{"up", strings.TrimSpace(nbdtest.RunTool(b, "gleaner", "disk", "export", "v", "--data", data)), []*os.Process{cmd.Process}}
}

func besideFront(b *testing.B, servers int) peer {
	data := startServers(b, servers)
	uri, front := exportDisk(b, data, "v", 1<<30)
	p := peer{strconv.Itoa(servers) + "servers", uri, []*os.Process{front}}
	for _, s := range serverProcesses(b, data) {
		p.processes = append(p.processes, s)
	}
	return p
}

// plainFile serves a file by another's server.
func plainFile(b *testing.B, name string, args ...string) peer {
	dir := b.TempDir()
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "image")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(file, 1<<30); err != nil {
		b.Fatal(err)
	}
	for i := range args {
		args[i] = strings.NewReplacer("SOCKET", socket, "IMAGE", file).Replace(args[i])
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitSocket(b, socket)
	return peer{name, "nbd+unix:///?socket=" + socket, []*os.Process{cmd.Process}}
}
