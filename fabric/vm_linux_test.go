package fabric_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gleaner/fabric/nbd/nbdtest"
)

// guest is what the virtual machine does: it makes a file system on the vDisk, fills it, unmounts and checks it, and reads it back.
const guest = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin LD_LIBRARY_PATH=/lib
mount -t devtmpfs dev /dev
mount -t proc proc /proc
fail() { echo "guest: $1 failed"; poweroff -f; }
i=0
while [ ! -e /dev/vda ]; do # which module needs which differs between kernels
  for m in /lib/*.ko; do insmod $m 2>/dev/null; done
  i=$((i+1))
  [ $i -eq 100 ] && fail virtio
  sleep 0.1
done
/sbin/mke2fs -q -t ext4 -F /dev/vda || fail mkfs
mkdir /mnt
mount -t ext4 /dev/vda /mnt || fail mount
i=0
while [ $i -lt 24 ]; do
  dd if=/dev/urandom of=/mnt/file$i bs=1M count=2 2>/dev/null || fail write
  i=$((i+1))
  [ $i -eq 8 ] && echo "guest: a third is written"
done
cd /mnt && md5sum file* > /sums && cd / || fail sums
umount /mnt || fail umount
/sbin/e2fsck -f -n /dev/vda || fail e2fsck
mount -t ext4 /dev/vda /mnt || fail "second mount"
cd /mnt && md5sum -c -s /sums || fail compare
cd / && umount /mnt || fail "second umount"
echo "guest: all is there"
poweroff -f
`

// A virtual machine uses a vDisk as its disk while a data server is lost.
//
//	GLEANER_KERNEL=DIR go test -run VM ./fabric    # DIR: an unpacked linux-image-…-cloud-amd64
func TestVM(t *testing.T) {
	nbdtest.Need(t, "qemu-system-x86_64", "busybox", "cpio", "mke2fs", "e2fsck", "ldd")
	kernels, _ := filepath.Glob(filepath.Join(os.Getenv("GLEANER_KERNEL"), "boot/vmlinuz-*-cloud-amd64"))
	if os.Getenv("GLEANER_KERNEL") == "" || len(kernels) == 0 {
		t.Skip("GLEANER_KERNEL names no folder with Debian's kernel for virtual machines")
	}
	r := newRack(t, 4)
	f := r.front(time.Second)
	create(t, f, "v", 128<<20, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	machine := exec.CommandContext(ctx, "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", "512", "-nodefaults", "-nographic", "-no-reboot",
		"-serial", "stdio", "-kernel", kernels[0], "-initrd", initrd(t, os.Getenv("GLEANER_KERNEL")), "-append", "console=ttyS0 quiet panic=-1",
		"-drive", "file="+serve(t, f)("v")+",format=raw,if=none,id=d0,cache=none,discard=unmap", "-device", "virtio-blk-pci,drive=d0")
	console, err := machine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	machine.Stderr = machine.Stdout
	if err := machine.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	for lines := bufio.NewScanner(console); lines.Scan(); {
		t.Log(lines.Text())
		if strings.Contains(lines.Text(), "a third is written") {
			r.halt(r.servers[2])
		}
		done = done || strings.Contains(lines.Text(), "all is there")
	}
	if err := machine.Wait(); err != nil || !done {
		t.Errorf("the guest did not end well: %v", err)
	}
}

// initrd packs the guest: busybox, e2fsprogs with their libraries, and the modules of virtio.
func initrd(t *testing.T, kernel string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(lookup(t, "busybox"), "bin/busybox")
	for _, tool := range []string{"mke2fs", "e2fsck"} {
		put(lookup(t, tool), "sbin/"+tool)
		for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(nbdtest.RunTool(t, "ldd", lookup(t, tool)), -1) {
			put(library, filepath.Join("lib", filepath.Base(library)))
			put(library, library) // the loader has an absolute name
		}
	}
	for _, module := range []string{"virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"} {
		found, _ := filepath.Glob(filepath.Join(kernel, "lib/modules/*/kernel/drivers/*", module+".ko"))
		if len(found) != 1 {
			t.Fatalf("%s has %d modules %s", kernel, len(found), module)
		}
		put(found[0], fmt.Sprintf("lib/%s.ko", module))
	}
	for _, folder := range []string{"dev", "proc"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "init"), []byte(guest), 0o755); err != nil {
		t.Fatal(err)
	}
	pack := exec.Command("sh", "-c", "find . | cpio --quiet -o -H newc")
	pack.Dir = dir
	archive, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func lookup(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
