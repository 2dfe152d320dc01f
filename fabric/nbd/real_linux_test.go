package nbd_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/fabric/nbd"
	"gleaner/fabric/nbd/nbdtest"
)

// sparse gives an offer of an empty file.
func sparse(t testing.TB, name string, size int64) nbdtest.Offer {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return nbdtest.Offer{Export: nbd.Export{Name: name, Size: size, MultiConn: true}, Device: nbdtest.NewFile(file)}
}

func TestQemuIO(t *testing.T) {
	nbdtest.Need(t, "qemu-io")
	uri := nbd.URI(serve(t, nbdtest.Exports{sparse(t, "disk", 64<<20)}, nbd.Options{}), "disk", false)
	out := nbdtest.RunTool(t, "qemu-io", "-f", "raw", "-d", "unmap", uri,
		"-c", "write -P 0xaa 0 1M",
		"-c", "write -P 0xbb 1000 3001", // across blocks
		"-c", "write -f -P 0xcc 2M 64k", // FUA
		"-c", "flush",
		"-c", "read -P 0xaa 0 1000",
		"-c", "read -P 0xbb 1000 3001",
		"-c", "read -P 0xaa 4001 1044575",
		"-c", "write -z 512k 64k",
		"-c", "read -P 0 512k 64k",
		"-c", "write -z -u 2M 4k",
		"-c", "read -P 0 2M 4k",
		"-c", "read -P 0xcc 2101248 61440",
		"-c", "discard 0 256k",
		"-c", "read -P 0xaa 256k 256k",
		"-c", "aio_write -P 0x11 8M 2M", "-c", "aio_write -P 0x22 10M 2M", "-c", "aio_flush",
		"-c", "read -P 0x11 8M 2M", "-c", "read -P 0x22 10M 2M",
		"-c", "write -P 0x77 32M 32M", "-c", "read -P 0x77 32M 32M") // the largest
	if strings.Contains(out, "Pattern verification failed") || strings.Contains(out, "rror") {
		t.Fatal(out)
	}
}

// TestQemuImg copies a sparse qcow2 in and out and compares, and asks for a map of holes.
func TestQemuImg(t *testing.T) {
	nbdtest.Need(t, "qemu-img", "qemu-io")
	uri := nbd.URI(serve(t, nbdtest.Exports{sparse(t, "disk", 64<<20)}, nbd.Options{}), "disk", false)
	image := filepath.Join(t.TempDir(), "i.qcow2")
	nbdtest.RunTool(t, "qemu-img", "create", "-q", "-f", "qcow2", image, "64M")
	nbdtest.RunTool(t, "qemu-io", "-f", "qcow2", image, "-c", "write -P 5 3M 2M", "-c", "write -P 6 40M 5M")
	nbdtest.RunTool(t, "qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", image, uri)
	nbdtest.RunTool(t, "qemu-img", "compare", "-f", "qcow2", "-F", "raw", image, uri)
	back := filepath.Join(t.TempDir(), "back.qcow2")
	nbdtest.RunTool(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", uri, back)
	nbdtest.RunTool(t, "qemu-img", "compare", image, back)
	if list := nbdtest.RunTool(t, "qemu-img", "map", "-f", "raw", "--output=json", uri); !strings.Contains(list, `"start": 3145728, "length": 2097152, "depth": 0, "present": true, "zero": false, "data": true`) {
		t.Errorf("the map does not show the data at 3 MiB:\n%s", list)
	}
}

func TestNbdinfo(t *testing.T) {
	nbdtest.Need(t, "nbdinfo")
	snapshot := memory("snap", 5<<20)
	snapshot.ReadOnly, snapshot.MultiConn, snapshot.Description = true, false, "as of noon"
	addr := serve(t, nbdtest.Exports{memory("disk", 1<<20), snapshot}, nbd.Options{})
	for _, tc := range []struct{ args, want string }{
		{"--list " + nbd.URI(addr, "", false), `export="snap":
	description: as of noon
	export-size: 5242880 (5M)`},
		{nbd.URI(addr, "snap", false), "is_read_only: true"},
		{nbd.URI(addr, "snap", false), "can_multi_conn: false"},
		{nbd.URI(addr, "disk", false), "can_multi_conn: true"},
		{nbd.URI(addr, "disk", false), "block_size_maximum: 33554432"},
		{nbd.URI(addr, "disk", false), "base:allocation"},
		{nbd.URI(addr, "disk", false), "protocol: newstyle-fixed without TLS, using structured packets"},
		{"--map " + nbd.URI(addr, "disk", false), "0     1048576    3  hole,zero"},
		{"--size " + nbd.URI(addr, "", false), "1048576"}, // the default export
	} {
		if out := nbdtest.RunTool(t, "nbdinfo", strings.Fields(tc.args)...); !strings.Contains(out, tc.want) {
			t.Errorf("nbdinfo %s does not say %q:\n%s", tc.args, tc.want, out)
		}
	}
	out, err := exec.Command("nbdinfo", nbd.URI(addr, "nosuch", false)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "No such file") {
		t.Errorf("an export that is not there: %v\n%s", err, out)
	}
}

// TestNbdcopy copies 1 GiB in and out, of which one part in four is holes.
func TestNbdcopy(t *testing.T) {
	nbdtest.Need(t, "nbdcopy")
	const size = 1 << 30
	in := filepath.Join(t.TempDir(), "in")
	nbdtest.Fill(t, in, size, true)
	uri := nbd.URI(serve(t, nbdtest.Exports{sparse(t, "disk", size)}, nbd.Options{}), "disk", false)
	nbdtest.RunTool(t, "nbdcopy", "--flush", in, uri)
	out := filepath.Join(t.TempDir(), "out")
	nbdtest.RunTool(t, "nbdcopy", uri, out)
	if a, b := nbdtest.Hash(t, in), nbdtest.Hash(t, out); a != b {
		t.Errorf("in %s, out %s", a, b)
	}
}

// TestNbdsh has libnbd send what its tools do not: requests that the server must refuse.
func TestNbdsh(t *testing.T) {
	nbdtest.Need(t, "nbdsh")
	snapshot := memory("snap", 1<<20)
	snapshot.ReadOnly = true
	big := memory("disk", 40<<20)
	addr := serve(t, nbdtest.Exports{big, snapshot}, nbd.Options{})
	script := fmt.Sprintf(`
import nbd, errno
def refused(code, f, *args):
    try:
        f(*args)
    except nbd.Error as e:
        assert e.errnum == code, (e.errnum, code, e.string)
        return
    raise Exception("not refused")

def client(uri, structured=True):
    h = nbd.NBD()
    h.set_strict_mode(0)
    h.set_request_structured_replies(structured)
    if structured:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.connect_uri(uri)
    return h

for structured in (True, False):
    h = client(%[1]q, structured)
    size = h.get_size()
    h.pwrite(b"x" * 1000, 7, nbd.CMD_FLAG_FUA)
    assert h.pread(1002, 6) == b"\0" + b"x" * 1000 + b"\0"
    h.zero(4096, 0)
    h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
    h.trim(8192, 4096, nbd.CMD_FLAG_FUA)
    h.flush()
    refused(errno.EINVAL, h.pread, 10, size - 9)
    refused(errno.ENOSPC, h.pwrite, b"x" * 10, size - 9)
    refused(errno.ENOSPC, h.zero, 10, size - 9)
    refused(errno.EINVAL, h.trim, 10, size)
    refused(errno.EINVAL, h.trim, 10, 2**63 - 1)
    refused(errno.EINVAL, h.pwrite, b"x", 0, nbd.CMD_FLAG_REQ_ONE)
    refused(errno.EINVAL, h.zero, 512, 0, nbd.CMD_FLAG_FAST_ZERO)
    refused(errno.EINVAL, h.cache, 512, 0)
    h.pwrite(b"y" * (32 << 20), 0)
    assert h.pread(32 << 20, 0) == b"y" * (32 << 20)
    h.zero(size, 0)
    assert h.pread(32 << 20, 0) == bytes(32 << 20)
    if structured:
        h.pread_structured(65536, 0, lambda *a: 0, nbd.CMD_FLAG_DF)
        seen = []
        h.pwrite(b"z", 1 << 20)
        h.block_status(size, 0, lambda c, o, e, err: seen.append(list(e)))
        assert seen == [[1 << 20, 3, 4096, 0, size - (1 << 20) - 4096, 3]], seen
        seen.clear()
        h.block_status(size - 100, 100, lambda c, o, e, err: seen.append(list(e)), nbd.CMD_FLAG_REQ_ONE)
        assert seen == [[(1 << 20) - 100, 3]], seen
    h.shutdown()

h = client(%[2]q)
assert h.is_read_only()
for f, args in ((h.pwrite, (b"x" * 512, 0)), (h.zero, (512, 0)), (h.trim, (512, 0))):
    refused(errno.EPERM, f, *args)
assert h.pread(512, 0) == bytes(512)
h.flush()
h.shutdown()
`, nbd.URI(addr, "disk", false), nbd.URI(addr, "snap", false))
	t.Setenv("PATH", "/usr/bin:/bin:"+os.Getenv("PATH")) // Debian's libnbd is a module of Debian's Python
	nbdtest.RunTool(t, "nbdsh", "-c", script)
}

// TestFio writes and verifies with one connection and several.
func TestFio(t *testing.T) {
	nbdtest.Need(t, "fio")
	if !strings.Contains(nbdtest.RunTool(t, "fio", "--enghelp"), "nbd") {
		t.Skip("this fio has no nbd engine")
	}
	uri := nbd.URI(serve(t, nbdtest.Exports{sparse(t, "disk", 64<<20)}, nbd.Options{}), "disk", false)
	for _, job := range []string{
		"--rw=randwrite --bs=4k --iodepth=16 --fsync=32",
		"--rw=write --bs=4k --iodepth=1",
		"--rw=randwrite --bs=1m --iodepth=4",
		"--rw=write --bs=1m --iodepth=4 --fsync=4",
		"--rw=randrw --bsrange=512-96k --bs_unaligned --iodepth=16 --serialize_overlap=1",
		"--rw=randwrite --bs=4k --iodepth=8 --numjobs=4 --size=16m --offset_increment=16m",
		"--rw=randtrim --bs=64k --iodepth=4 --verify=0 --do_verify=0",
	} {
		args := append([]string{"--name=v", "--ioengine=nbd", "--uri=" + uri, "--thread", "--size=64m", "--verify=crc32c",
			"--do_verify=1", "--verify_fatal=1", "--randseed=1", "--verify_state_save=0", "--output-format=terse"}, strings.Fields(job)...)
		nbdtest.RunTool(t, "fio", args...)
	}
}

// TestTLS has the tools connect with and without certificates.
func TestTLS(t *testing.T) {
	nbdtest.Need(t, "certtool", "nbdinfo", "nbdcopy")
	dir := certificates(t)
	config := tlsConfig(t, dir)
	l, err := nbd.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := serveOn(t, l, nbdtest.Exports{sparse(t, "disk", 16<<20)}, nbd.Options{TLS: config})
	secure := nbd.URI(addr, "disk", true) + "?tls-certificates=" + dir
	if out := nbdtest.RunTool(t, "nbdinfo", secure); !strings.Contains(out, "newstyle-fixed with TLS") {
		t.Errorf("no TLS:\n%s", out)
	}
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	nbdtest.Fill(t, in, 16<<20, true)
	nbdtest.RunTool(t, "nbdcopy", in, secure)
	nbdtest.RunTool(t, "nbdcopy", secure, out)
	if a, b := nbdtest.Hash(t, in), nbdtest.Hash(t, out); a != b {
		t.Errorf("in %s, out %s", a, b)
	}
	for what, uri := range map[string]string{
		"no TLS":         nbd.URI(addr, "disk", false),
		"no certificate": nbd.URI(addr, "disk", true) + "?tls-certificates=" + filepath.Join(dir, "nobody"),
	} {
		if out, err := exec.Command("nbdinfo", uri).CombinedOutput(); err == nil {
			t.Errorf("%s: let in\n%s", what, out)
		}
	}
	config.ClientAuth = tls.NoClientCert
	nbdtest.RunTool(t, "nbdinfo", nbd.URI(serve(t, nbdtest.Exports{sparse(t, "disk", 1<<20)}, nbd.Options{TLS: config}), "disk", true)+
		"&tls-certificates="+filepath.Join(dir, "nobody"))
}

// certificates makes an authority, a server and a client, and a directory of
// one who has only heard of the authority.
func certificates(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	make := func(name, template string, sign ...string) {
		if err := os.WriteFile(at(name+".info"), []byte(template), 0o600); err != nil {
			t.Fatal(err)
		}
		nbdtest.RunTool(t, "certtool", "--generate-privkey", "--key-type=ecdsa", "--outfile", at(name+"-key.pem"))
		nbdtest.RunTool(t, "certtool", append(sign, "--template", at(name+".info"), "--load-privkey", at(name+"-key.pem"), "--outfile", at(name+"-cert.pem"))...)
	}
	signed := []string{"--generate-certificate", "--load-ca-certificate", at("ca-cert.pem"), "--load-ca-privkey", at("ca-key.pem")}
	make("ca", "cn = test authority\nca\ncert_signing_key\n", "--generate-self-signed")
	make("server", "cn = localhost\ndns_name = localhost\nip_address = 127.0.0.1\ntls_www_server\nsigning_key\n", signed...)
	make("client", "cn = a client\ntls_www_client\nsigning_key\n", signed...)
	authority, err := os.ReadFile(at("ca-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("nobody"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("nobody/ca-cert.pem"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func tlsConfig(t testing.TB, dir string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server-cert.pem"), filepath.Join(dir, "server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}
