package proc

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// TestUsage: each is counted once, and what nobody else used is the others'.
func TestUsage(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	process := func(own, children string) *fstest.MapFile {
		return file("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 " + own + " 0 " + children + " 0 20 0\n")
	}
	proc := fstest.MapFS{"stat": file("cpu  100 0 0 900\ncpu0 1\ncpu1 1\nintr\n"), "self/stat": process("10", "0"), "7/stat": process("20", "50"), "8/stat": process("0", "0"),
		"self/task/1/schedstat": file("5 1000 10\n"), "self/task/2/schedstat": file("0 0 0\n"), "8/task/8/schedstat": file("5 5 5\n")}
	s, err := watch(proc, []int{7, 8})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := s.Usage(); err != nil || u != (Usage{}) {
		t.Errorf("before a tick: %+v, %v", u, err)
	}
	// Two cores for a second: this process used 30 ticks and a child that ended 20; 7
	// used 40, and its children do not count; 8 has ended. Threads of this process
	// waited for 4000 ns before they ran ten times.
	proc["stat"], proc["self/stat"], proc["7/stat"] = file("cpu  250 0 0 950\ncpu0 1\ncpu1 1\nintr\n"), process("40", "20"), process("60", "99")
	proc["self/task/1/schedstat"], proc["self/task/3/schedstat"] = file("5 4000 15\n"), file("5 1000 5\n")
	delete(proc, "8/stat")
	if u, err := s.Usage(); err != nil || u != (Usage{Cores: 2, Self: 0.5, Chosen: 0.4, Others: 0.6, SelfWaited: 400}) {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []string{"", "7 (a", "7 (a) S 1 1", "7 (a) S 1 1 1 0 -1 0 0 0 0 0 x 0 0 0 20"} {
		proc["self/stat"] = file(bad)
		if _, err := s.Usage(); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestUsageOfThisMachine: a process that counts for a while is seen to.
func TestUsageOfThisMachine(t *testing.T) {
	s, err := Watch(nil)
	if err != nil {
		t.Skip(err)
	}
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; {
	}
	if u, err := s.Usage(); err != nil || u.Self <= 0 || u.Self+u.Others > u.Cores+0.5 || u.SelfWaited < 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestListeners finds this process by the port that it listens on.
func TestListeners(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip(err)
	}
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		if got := Listeners(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)); !slices.Equal(got, []int{os.Getpid()}) {
			t.Errorf("%s is listened on by %v, and not by %d", l.Addr(), got, os.Getpid())
		}
		if got := Listeners(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), port)); at == "127.0.0.1:0" && got != nil {
			t.Errorf("another address is listened on by %v", got)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{"0100007F:1F90": "127.0.0.1:8080", "00000000000000000000000001000000:0050": "[::1]:80",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80"} {
		if got, ok := parseAddress(text); !ok || got.String() != want {
			t.Errorf("%s: %s, %v", text, got, ok)
		}
	}
	for _, bad := range []string{"", "01:", "0100007F", "0100007F:FFFFF", "01000G7F:1F90"} {
		if got, ok := parseAddress(bad); ok {
			t.Errorf("%q was taken as %s", bad, got)
		}
	}
}
