package nbdtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Need skips a test whose tools are not installed.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (Debian: qemu-utils, libnbd-bin, python3-libnbd, nbdkit, fio, gnutls-bin)", tool)
		}
	}
}

// RunTool runs a tool and returns what it wrote, or fails the test.
func RunTool(t testing.TB, tool string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Fill makes a file of random bytes. With holes, each fourth MiB is one.
func Fill(t testing.TB, path string, size int64, holes bool) {
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
		if holes && at>>20%4 == 3 {
			continue
		}
		random.Read(part)
		if _, err := file.WriteAt(part, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

// Hash returns the SHA-256 of a file.
func Hash(t testing.TB, path string) string {
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

// Loads are the jobs of fio that servers are compared by.
var Loads = []struct{ Name, Args string }{
	{"seqread/1MiB/q4", "--rw=read --bs=1m --iodepth=4"},
	{"seqwrite/1MiB/q4", "--rw=write --bs=1m --iodepth=4"},
	{"randread/4KiB/q1", "--rw=randread --bs=4k --iodepth=1"},
	{"randread/4KiB/q16", "--rw=randread --bs=4k --iodepth=16"},
	{"randwrite/4KiB/q1", "--rw=randwrite --bs=4k --iodepth=1"},
	{"randwrite/4KiB/q16", "--rw=randwrite --bs=4k --iodepth=16"},
	{"randwrite/4KiB/q1/fsync1", "--rw=randwrite --bs=4k --iodepth=1 --fsync=1"},
	{"randwrite/4KiB/q1/8clients/fsync1", "--rw=randwrite --bs=4k --iodepth=1 --fsync=1 --numjobs=8"},
}

// Load runs fio for a second on an export of 1 GiB and returns the bytes it moved in that time.
func Load(b *testing.B, uri, args string) float64 {
	b.Helper()
	out := filepath.Join(b.TempDir(), "out")
	all := append([]string{"--name=load", "--ioengine=nbd", "--uri=" + uri, "--thread", "--size=1g", "--time_based", "--runtime=1",
		"--group_reporting", "--output-format=json", "--output=" + out}, strings.Fields(args)...)
	RunTool(b, "fio", all...)
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
