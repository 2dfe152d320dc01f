package history

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/datadriven"

	"gleaner/cluster"
	"gleaner/input"
)

// TestRead reads small files and prints what they say, or the one line that
// says what is wrong with them.
func TestRead(t *testing.T) {
	datadriven.Walk(t, "testdata/read", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			o := ReadOptions{SkipBad: d.HasArg("skip-bad")}
			text := d.Input
			switch {
			case d.HasArg("crlf"):
				text = strings.ReplaceAll(text, "\n", "\r\n")
			case d.HasArg("bom"):
				text = "\ufeff" + text
			case d.HasArg("escapes"):
				text = strings.NewReplacer(`\xff`, "\xff", `\x00`, "\x00").Replace(text)
			case d.HasArg("long"):
				text += strings.Repeat("x", maxRecord+1)
			}
			var stats ReadStats
			var err error
			switch d.Cmd {
			case "samples":
				stats, err = ReadSamples("f.csv", strings.NewReader(text), o, func(s Sample) error {
					fmt.Fprintf(&out, "%s %s cpu=%v", s.Time().Format("2006-01-02T15:04:05.999"), s.Server, s.CPU)
					if s.Mem == s.Mem {
						fmt.Fprintf(&out, " mem=%v", s.Mem)
					}
					if s.Tenant != "" {
						fmt.Fprintf(&out, " tenant=%s", s.Tenant)
					}
					fmt.Fprintln(&out)
					return nil
				})
			case "servers":
				var inv Inventory
				for i, part := range strings.Split(text, "---\n") {
					if err = inv.Read(fmt.Sprintf("f%d.csv", i+1), strings.NewReader(part)); err != nil {
						break
					}
				}
				if err != nil {
					break
				}
				for _, s := range inv.Servers() {
					fmt.Fprintf(&out, "%s tenant=%s rack=%s cpu=%dm memory=%d disk=%d\n", s.ID, s.Tenant(), s.Rack, s.CPU, s.Memory, s.Disk)
				}
			case "reimages":
				var all []cluster.Reimage
				all, stats, err = ReadReimages("f.csv", strings.NewReader(text), o)
				for _, r := range all {
					fmt.Fprintf(&out, "%s %s %q\n", r.At.Format("2006-01-02T15:04:05.999"), r.Server, r.Cause)
				}
			}
			if stats.Skipped > 0 {
				fmt.Fprintf(&out, "skipped %d, the first: %v\n", stats.Skipped, stats.FirstBad)
			}
			if err != nil {
				if !input.Is(err) {
					t.Errorf("%v is not an input.Error", err)
				}
				fmt.Fprintf(&out, "error: %v\n", err)
			}
			return out.String()
		})
	})
}

// TestReadInPieces gives the reader its bytes in the smallest pieces.
func TestReadInPieces(t *testing.T) {
	text := "time,server,cpu\n" + strings.Repeat("1375308176,\"vm\n001\",12.77\n1375308176,vm2,1\n", 5)
	count := func(r io.Reader) int64 {
		stats, err := ReadSamples("f.csv", r, ReadOptions{SkipBad: true}, func(Sample) error { return nil })
		if err != nil || stats.FirstBad == nil || !strings.HasPrefix(stats.FirstBad.Error(), "f.csv:2: ") {
			t.Fatal(err, stats.FirstBad)
		}
		return stats.Rows*100 + stats.Skipped
	}
	whole := count(strings.NewReader(text))
	if pieces := count(iotest.OneByteReader(strings.NewReader(text))); pieces != whole || whole != 505 {
		t.Errorf("byte by byte %d, at once %d, want 505", pieces, whole)
	}
}

func FuzzReadSamples(f *testing.F) {
	f.Add([]byte("time,server,cpu,mem,tenant\n1375308176.5,a,12.77,,t\n2013-08-01T00:00:00Z,\"a\"\"b\",1e1,5,\n"), true)
	f.Add([]byte("\ufefftime,server,cpu\r\n1,a,110\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, skip bool) {
		stats, err := ReadSamples("f", bytes.NewReader(text), ReadOptions{SkipBad: skip}, func(s Sample) error {
			if err := s.check(); err != nil {
				t.Fatal(err)
			}
			if fromMillionths(toMillionths(s.CPU)) != s.CPU {
				t.Fatalf("cpu %v is not kept as it was read", s.CPU)
			}
			return nil
		})
		checkOutcome(t, stats, err, skip)
	})
}

// checkOutcome tells a refusal that a user can act on from any other.
func checkOutcome(t *testing.T, stats ReadStats, err error, skip bool) {
	switch {
	case err != nil && (!input.Is(err) || strings.Contains(err.Error(), "\n")):
		t.Fatalf("not one line about the input: %q", err)
	case !skip && stats.Skipped > 0:
		t.Fatal("skipped without being asked to")
	}
}

func FuzzReadServers(f *testing.F) {
	f.Add([]byte("server,environment,function,rack,cores,memory_mb,disk_gb\ns,e,f,r,1.5,2,3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var inv Inventory
		err := inv.Read("f", bytes.NewReader(text))
		checkOutcome(t, ReadStats{}, err, false)
		if err != nil {
			return
		}
		for _, s := range inv.Servers() {
			if s.ID == "" || s.CPU < 0 || s.Memory < 0 || s.Disk < 0 {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func FuzzReadReimages(f *testing.F) {
	f.Add([]byte("time,server,cause\n7,s,test\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, skip bool) {
		all, stats, err := ReadReimages("f", bytes.NewReader(text), ReadOptions{SkipBad: skip})
		checkOutcome(t, stats, err, skip)
		for _, r := range all {
			if r.Server == "" || r.At.UnixMilli() < 0 || r.At.UnixMilli() >= lastMilli {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"0", "1375308176.123456", "2013-08-01T00:00:00.5+02:00", "1e9", "-1", "9999-12-31T23:59:59Z", "1.", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseTime(text)
		if err != nil {
			return
		}
		again, err := ParseTime(at.Format("2006-01-02T15:04:05.000Z07:00"))
		if err != nil || !again.Equal(at) {
			t.Fatalf("%q is %v, but that is %v, %v", text, at, again, err)
		}
	})
}
