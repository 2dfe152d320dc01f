package fabric_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"gleaner/fabric/nbd/nbdtest"
	"gleaner/lab/guest"
)

// filesystem is what the virtual machine does: it makes a file system on the vDisk, fills it, unmounts and checks it, and reads it back.
const filesystem = `
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
`

// A virtual machine uses a vDisk as its disk while a data server is lost.
func TestVM(t *testing.T) {
	t.Parallel()
	nbdtest.Need(t, "mke2fs", "e2fsck")
	r := newRack(t, 4)
	f := r.front(time.Second)
	create(t, f, "v", 128<<20, 3)
	g := guest.Guest{Script: filesystem, Memory: "512", Disk: serve(t, f)("v"),
		Programs: map[string]string{"sbin/mke2fs": lookup(t, "mke2fs"), "sbin/e2fsck": lookup(t, "e2fsck")}}
	done := false
	for line := range g.Boot(t) {
		t.Log(line)
		if strings.Contains(line, "a third is written") {
			r.halt(r.servers[2])
		}
		done = done || strings.Contains(line, "all is there")
	}
	if !done {
		t.Error("the guest did not get to its end")
	}
}

func lookup(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
