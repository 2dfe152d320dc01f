// Package guest boots a small virtual machine for tests: Debian's kernel, busybox, and
// the programs that a test needs. It is what a vDisk is tried in, and a kernel with other
// control groups than the one at hand.
package guest

import (
	"bufio"
	"context"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A Guest is what is in a virtual machine.
type Guest struct {
	// Script is run as its first process, by busybox, after /dev and /proc are mounted.
	// When it ends, so does the machine; 'fail WHAT' ends it too.
	Script   string
	Programs map[string]string // their names there -> files here; with their libraries
	Disk     string            // what /dev/vda is: a file, or an address of NBD; none: there is no disk
	Memory   string            // in MiB
}

// modules are those that a disk needs.
var modules = []string{"virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"}

// begin is what every guest does first.
const begin = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin LD_LIBRARY_PATH=/lib
mount -t devtmpfs dev /dev
mount -t proc proc /proc
fail() { echo "guest: $1 failed"; poweroff -f; }
`

// awaitDisk loads modules in whichever order works: which needs which differs between kernels.
const awaitDisk = `
i=0
while [ ! -e /dev/vda ]; do
  for m in /lib/*.ko; do insmod $m 2>/dev/null; done
  i=$((i+1))
  [ $i -eq 100 ] && fail virtio
  sleep 0.1
done
`

// patience is how long a guest may take: it is emulated.
const patience = 5 * time.Minute

// Boot starts the machine and gives the lines that it writes. The test is skipped
// without QEMU, busybox, cpio or a kernel:
//
//	GLEANER_KERNEL=DIR go test -run VM ./...    # DIR: an unpacked linux-image-…-cloud-amd64
func (g Guest) Boot(t testing.TB) iter.Seq[string] {
	t.Helper()
	if testing.Short() {
		t.Skip("an emulated machine takes long")
	}
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "ldd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (Debian: qemu-system-x86, busybox-static, cpio)", tool)
		}
	}
	folder := os.Getenv("GLEANER_KERNEL")
	kernels, _ := filepath.Glob(filepath.Join(folder, "boot/vmlinuz-*-cloud-amd64"))
	if folder == "" || len(kernels) == 0 {
		t.Skip("GLEANER_KERNEL names no folder with Debian's kernel for virtual machines")
	}
	args := []string{"-machine", "q35,accel=tcg", "-cpu", "max", "-m", g.Memory, "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio",
		"-kernel", kernels[0], "-initrd", g.pack(t, folder), "-append", "console=ttyS0 quiet panic=-1"}
	if g.Disk != "" {
		args = append(args, "-drive", "file="+g.Disk+",format=raw,if=none,id=d0,cache=none,discard=unmap", "-device", "virtio-blk-pci,drive=d0")
	}
	return func(yield func(string) bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		machine := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
		console, err := machine.StdoutPipe()
		must(t, err)
		machine.Stderr = machine.Stdout
		must(t, machine.Start())
		more := true
		for lines := bufio.NewScanner(console); more && lines.Scan(); {
			more = yield(lines.Text())
		}
		if !more {
			cancel()
		}
		if err := machine.Wait(); err != nil && more {
			t.Errorf("the guest did not end well: %v", err)
		}
	}
}

// pack makes the file system that the machine starts from.
func (g Guest) pack(t testing.TB, kernel string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, to), data, 0o755))
	}
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	put(busybox, "bin/busybox")
	for to, from := range g.Programs {
		put(from, to)
		needs, _ := exec.CommandContext(t.Context(), "ldd", from).Output() // fails for a program that needs nothing
		for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(needs), -1) {
			put(library, filepath.Join("lib", filepath.Base(library)))
			put(library, library) // the loader has an absolute name
		}
	}
	script := begin
	if g.Disk != "" {
		script += awaitDisk
	}
	for _, module := range modules {
		found, _ := filepath.Glob(filepath.Join(kernel, "lib/modules/*/kernel/drivers/*", module+".ko"))
		if len(found) != 1 {
			t.Fatalf("%s has %d modules %s", kernel, len(found), module)
		}
		put(found[0], "lib/"+module+".ko")
	}
	for _, folder := range []string{"dev", "proc", "sys", "tmp"} {
		must(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "init"), []byte(script+g.Script+"\npoweroff -f\n"), 0o755))
	file := filepath.Join(t.TempDir(), "initrd")
	pack := exec.CommandContext(t.Context(), "sh", "-c", `find . | cpio --quiet -o -H newc > "$0"`, file)
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v: %s", err, strings.TrimSpace(string(out)))
	}
	return file
}

// Again runs tests of this program in a machine whose kernel has control groups of version
// 2 alone, on a disk of its own.
func Again(t *testing.T, run string) {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	disk := filepath.Join(t.TempDir(), "disk")
	if out, err := exec.CommandContext(t.Context(), "mke2fs", "-q", "-t", "ext4", disk, "1G").CombinedOutput(); err != nil {
		t.Skipf("mke2fs (Debian: e2fsprogs): %v: %s", err, out)
	}
	g := Guest{Memory: "1024", Disk: disk, Programs: map[string]string{"sbin/again": program}, Script: `
mount -t sysfs sys /sys || fail sysfs
mount -t cgroup2 cgroup /sys/fs/cgroup || fail cgroup2
mount -t ext4 /dev/vda /tmp || fail disk
cd /tmp
/sbin/again -test.v -test.run '` + run + `' && echo "guest: all hold"
`}
	holds, passed := false, 0
	for line := range g.Boot(t) {
		t.Log(line)
		holds = holds || strings.Contains(line, "guest: all hold")
		if strings.HasPrefix(line, "--- PASS") {
			passed++
		}
	}
	if !holds || passed == 0 {
		t.Errorf("%d tests have passed, and not all", passed)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
