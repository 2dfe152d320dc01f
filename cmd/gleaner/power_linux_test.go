package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gleaner/fabric/nbd/nbdtest"
)

// TestPowerCut cuts the power of a fabric. Its data directory, with the store and three disks of data servers, is on ext4, on a loop
// device over nbdfuse, over a disk with a volatile cache; all processes are real. While several clients write and flush a vDisk, that disk and all
// processes are killed; what was held back is gone. After a restart each sector has what was last flushed, or what was written since.
//
//	GLEANER_LONG=1 go test -v -run PowerCut ./cmd/gleaner      # GLEANER_SEED=7 for one seed, GLEANER_CUTS=50 for more cuts
func TestPowerCut(t *testing.T) {
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("takes a minute: GLEANER_LONG=1")
	}
	nbdtest.Need(t, "nbdfuse", "losetup", "mkfs.ext4", "e2fsck")
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, device := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(device); err != nil {
			t.Skipf("this machine has no %s", device)
		}
	}
	seeds, cuts := []uint64{1, 2}, 4
	if text := os.Getenv("GLEANER_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	if n, err := strconv.Atoi(os.Getenv("GLEANER_CUTS")); err == nil {
		cuts = n
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			m := newMachine(t, seed)
			for range cuts {
				m.powerOn()
				m.verify()
				m.writeUntilCut()
			}
			m.powerOn()
			m.verify()
			awaitTrue(t, "no replica is missing or rotten", func() bool {
				return exec.Command("gleaner", "disk", "check", "--data", m.path("mnt/lab")).Run() == nil
			})
			t.Logf("%d cuts, %d writes answered and %d flushes, %d of the cuts lost something that was not flushed", cuts, m.writes, m.flushes, m.losses)
		})
	}
}

const (
	sectorSize  = 512
	vdiskSize   = 32 << 20
	clientCount = 4
)

// A machine has a fabric on a disk with a volatile cache.
type machine struct {
	*testing.T
	rng    *rand.Rand
	seed   uint64
	always bool // each write is flushed before it is answered
	early  float64
	base   string // the file of the disk
	dir    string // everything that does not have to survive

	on    int // times it was on
	vdisk *os.File
	off   []func() // end what was started, in that order; the first is the disk

	sectors []versions
	mu      sync.Mutex
	last    uint64 // version
	writes  int
	flushes int
	losses  int
}

// versions of a sector that a restart may find: those from flushed to newest.
type versions struct{ flushed, answered, newest uint64 }

func newMachine(t *testing.T, seed uint64) *machine {
	dir, err := os.MkdirTemp("", "power") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	rng := rand.New(rand.NewPCG(seed, 0))
	m := &machine{T: t, rng: rng, seed: seed, always: rng.IntN(3) == 0, early: []float64{0, 0.05, 0.5}[rng.IntN(3)], base: filepath.Join(dir, "base"), dir: dir, sectors: make([]versions, vdiskSize/sectorSize)}
	t.Logf("sync always: %t, sectors that are not held back: %v", m.always, m.early)
	for _, d := range []string{"fuse", "mnt", "vdisk"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Create(m.base)
	if err == nil {
		err = file.Truncate(1 << 30)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	t.Cleanup(func() {
		m.cutPower()
		if text, err := os.ReadFile(m.path("log")); t.Failed() {
			t.Logf("%s %v", text[max(0, len(text)-20_000):], err)
		}
	})
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// start starts a process that is killed when the power is cut.
func (m *machine) start(tool string, args ...string) {
	m.Helper()
	cmd := exec.Command(tool, args...)
	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.off = append(m.off, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// mounted runs nbdfuse and gives the file in which a device is seen.
func (m *machine) mounted(at, uri string) string {
	m.Helper()
	file := filepath.Join(m.path(at), "nbd")
	m.start("nbdfuse", file, uri)
	m.off = append(m.off, func() { _ = unix.Unmount(m.path(at), unix.MNT_DETACH) })
	awaitTrue(m, "nbdfuse", func() bool { _, err := os.Stat(file); return err == nil })
	return file
}

// powerOn starts everything, from the disk up.
func (m *machine) powerOn() {
	m.Helper()
	m.on++
	socket := m.path(fmt.Sprint("base", m.on))
	m.start("volatile", socket, m.base, fmt.Sprint(m.early), fmt.Sprint(m.seed+uint64(m.on)))
	awaitSocket(m, socket)
	loop := strings.TrimSpace(nbdtest.RunTool(m, "losetup", "-f", "--show", m.mounted("fuse", "nbd+unix:///?socket="+socket)))
	m.off = append(m.off, func() { _ = exec.Command("losetup", "-d", loop).Run() })
	if m.on == 1 {
		nbdtest.RunTool(m, "mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", loop)
	} else if out, err := exec.Command("e2fsck", "-p", loop).CombinedOutput(); err != nil && exitCode(err) > 1 {
		m.Fatalf("e2fsck: %v\n%s", err, out)
	}
	nbdtest.RunTool(m, "mount", loop, m.path("mnt"))
	m.off = append(m.off, func() { _ = unix.Unmount(m.path("mnt"), unix.MNT_DETACH) })
	m.startFabric()
}

func exitCode(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return -1
}

func (m *machine) startFabric() {
	m.Helper()
	data, who := m.path("mnt/lab"), m.path("mnt/lab/fabric.json")
	_ = os.Remove(who)
	args := []string{"lab", "fabric", "--servers", "3", "--quota", "128MiB", "--data", data}
	if m.always {
		args = append(args, "--sync", "always")
	}
	m.start("gleaner", args...)
	awaitTrue(m, "the fabric is up", func() bool { _, err := os.Stat(who); return err == nil })
	if m.on == 1 {
		nbdtest.RunTool(m, "gleaner", "disk", "create", "v", "32MiB", "--data", data)
	}
	uri, err := exec.Command("gleaner", "disk", "export", "v", "--data", data).Output()
	if err != nil {
		m.Fatal(err)
	}
	if m.vdisk, err = os.OpenFile(m.mounted("vdisk", strings.TrimSpace(string(uri))), os.O_RDWR, 0); err != nil {
		m.Fatal(err)
	}
}

// servers are the process ids of the data servers.
func (m *machine) servers() (pids []int) {
	var file fabricFile
	text, err := os.ReadFile(m.path("mnt/lab/fabric.json"))
	if err != nil || json.Unmarshal(text, &file) != nil {
		return nil // it was not started
	}
	for _, s := range file.Servers {
		pids = append(pids, s.PID)
	}
	return pids
}

// cutPower kills the disk first: nothing reaches it any more. Then it kills all else.
func (m *machine) cutPower() {
	if len(m.off) == 0 {
		return
	}
	pids := m.servers()
	m.off[0]()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	m.vdisk.Close() // else its file system stays; nil is closed already
	for _, end := range slices.Backward(m.off[1:]) {
		end()
	}
	m.off = nil
}

// content is what a version of a sector looks like. Version 0 was never written.
func content(into []byte, sector int, version uint64) []byte {
	into = into[:0]
	for len(into) < sectorSize {
		if version == 0 {
			into = append(into, make([]byte, 16)...)
			continue
		}
		into = binary.LittleEndian.AppendUint64(into, version)
		into = binary.LittleEndian.AppendUint64(into, uint64(sector))
	}
	return into
}

// verify reads all sectors. What it finds is flushed, and is all that may be found from then on.
func (m *machine) verify() {
	m.Helper()
	all := make([]byte, vdiskSize)
	if _, err := m.vdisk.ReadAt(all, 0); err != nil {
		m.Fatalf("read everything: %v", err)
	}
	var want []byte
	lost := false
	for i := range m.sectors {
		s, got := &m.sectors[i], all[i*sectorSize:(i+1)*sectorSize]
		found := binary.LittleEndian.Uint64(got)
		if want = content(want, i, found); !bytes.Equal(got, want) || found < s.flushed || found > s.newest {
			m.Fatalf("time %d, sector %d: has version %d (whole: %t), but %d was flushed and %d the newest that was written", m.on, i, found, bytes.Equal(got, want), s.flushed, s.newest)
		}
		lost = lost || found < s.answered
		*s = versions{found, found, found}
	}
	if lost {
		m.losses++
	}
	if err := m.vdisk.Sync(); err != nil {
		m.Fatal(err)
	}
}

// writeUntilCut has several clients write, each to a part of its own, until the power is cut.
func (m *machine) writeUntilCut() {
	var clients sync.WaitGroup
	vdisk := m.vdisk
	for i := range clientCount {
		rng := rand.New(rand.NewPCG(m.seed, uint64(m.on*clientCount+i)))
		clients.Go(func() { m.client(vdisk, i, rng) })
	}
	time.Sleep(time.Duration(50+m.rng.IntN(1500)) * time.Millisecond)
	m.cutPower()
	clients.Wait()
}

func (m *machine) client(vdisk *os.File, part int, rng *rand.Rand) {
	const each = vdiskSize / sectorSize / clientCount
	first := part * each
	mine := m.sectors[first : first+each]
	for {
		if rng.IntN(8) == 0 {
			if vdisk.Sync() != nil {
				return
			}
			for i := range mine {
				mine[i].flushed = mine[i].answered
			}
			m.count(&m.flushes)
			continue
		}
		n := 1 + rng.IntN(16)
		if rng.IntN(20) == 0 {
			n = 1 + rng.IntN(512)
		}
		at := rng.IntN(each - n)
		version := m.next()
		var data, one []byte
		for i := at; i < at+n; i++ {
			mine[i].newest = version
			one = content(one, first+i, version)
			data = append(data, one...)
		}
		if _, err := vdisk.WriteAt(data, int64(first+at)*sectorSize); err != nil {
			return
		}
		for i := at; i < at+n; i++ {
			mine[i].answered = version
			if m.always {
				mine[i].flushed = version
			}
		}
		m.count(&m.writes)
	}
}

func (m *machine) next() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	return m.last
}

func (m *machine) count(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}
