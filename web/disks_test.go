package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/fabric"
	"gleaner/fabric/disk"
	"gleaner/kv/mem"
	"gleaner/web"
)

// newDisks serves a front with one disk of a quota.
func newDisks(t *testing.T, quota int64, stays bool) *httptest.Server {
	t.Helper()
	dir := t.TempDir()
	if err := disk.Format(disk.OS{}, dir, disk.Identity{Cluster: "c", Disk: "d", Tier: disk.SSD, Quota: quota, Salt: 1}); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(disk.OS{}, dir, disk.Options{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	front, err := fabric.Open(context.Background(), fabric.Options{Store: mem.New()})
	if err != nil {
		t.Fatal(err)
	}
	front.Join(cluster.Server{ID: "s"})
	front.Add("s", d)
	api := &web.Disks{Front: front, Stays: stays, URI: func(name string) string { return "nbd:" + name }}
	server := httptest.NewUnstartedServer(api.Handler())
	server.Config.ReadTimeout = time.Second // as a Serving has one
	server.Config.IdleTimeout = time.Minute // a test may take its time between two requests
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := front.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// post sends an order and gives the code and text of the answer.
func post(t *testing.T, s *httptest.Server, what string, o web.DiskOrder, body io.Reader) (int, string) {
	t.Helper()
	response, err := http.Post(s.URL+"/api/v1/disks/"+what+"?"+o.Query(), "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestDisksSayWhichFieldIsWrong(t *testing.T) {
	s := newDisks(t, 64<<20, true)
	for _, tc := range []struct {
		what  string
		order web.DiskOrder
		field string
	}{
		{"create", web.DiskOrder{Name: "a/b", Size: 512}, "name"},
		{"create", web.DiskOrder{Name: "a", Size: 511}, "size"},
		{"create", web.DiskOrder{Name: "a", Size: -512}, "size"},
		{"create", web.DiskOrder{Name: "a", Size: 512, Replicas: 6}, "replicas"},
		{"remove", web.DiskOrder{Name: "a"}, "name"},
		{"snapshot", web.DiskOrder{Name: "a", As: "b"}, "name"},
		{"clone", web.DiskOrder{Name: "a", As: "b"}, "snapshot"},
		{"export", web.DiskOrder{Name: "a"}, "name"},
		{"dump", web.DiskOrder{Name: "a"}, "name"},
	} {
		code, text := post(t, s, tc.what, tc.order, nil)
		var p web.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || code != http.StatusUnprocessableEntity || p.Field != tc.field || p.Error == "" {
			t.Errorf("%s %+v: %d %s, want %q to be wrong", tc.what, tc.order, code, text, tc.field)
		}
	}
	if code, _ := post(t, s, "list?name=a&size=large", web.DiskOrder{}, nil); code != http.StatusUnprocessableEntity {
		t.Errorf("a size that is no number: %d", code)
	}
}

// What is sent comes back, or nothing of it is left.
func TestImportIsWholeOrNothing(t *testing.T) {
	s := newDisks(t, 64<<20, false)
	sent := bytes.Repeat([]byte("gleaner "), 1<<18) // 2 MiB
	if code, text := post(t, s, "import", web.DiskOrder{Name: "whole"}, bytes.NewReader(sent[:len(sent)-100])); code != http.StatusOK {
		t.Fatal(code, text)
	}
	_, text := post(t, s, "dump", web.DiskOrder{Name: "whole"}, nil)
	got := make([]byte, len(sent))
	size, err := web.ReadPieces(strings.NewReader(text), func(p []byte, offset int64) error {
		copy(got[offset:], p)
		return nil
	})
	copy(sent[len(sent)-100:], make([]byte, 100))
	if err != nil || size != int64(len(sent)) || !bytes.Equal(got, sent) {
		t.Errorf("the dump has %d bytes (%v), or others than were sent", size, err)
	}

	code, text := post(t, s, "import", web.DiskOrder{Name: "large"}, bytes.NewReader(bytes.Repeat([]byte("x"), 100<<20)))
	if code != http.StatusInsufficientStorage || !strings.Contains(text, "room") {
		t.Errorf("an import without room: %d %s", code, text)
	}
	cutShort(t, s, "import?name=cut", 8<<20, sent)
	if _, text := post(t, s, "list", web.DiskOrder{}, nil); strings.Contains(text, "large") || strings.Contains(text, "cut") {
		t.Errorf("imports that failed left disks: %s", text)
	}
	if code, text := post(t, s, "import", web.DiskOrder{Name: "again"}, bytes.NewReader(bytes.Repeat([]byte("x"), 32<<20))); code != http.StatusOK {
		t.Errorf("their space is gone: %d %s", code, text)
	}
}

// A request may take longer than the server otherwise allows.
func TestImportTakesItsTime(t *testing.T) {
	s := newDisks(t, 64<<20, true)
	r, w := io.Pipe()
	go func() {
		for range 8 {
			time.Sleep(200 * time.Millisecond)
			_, _ = w.Write(make([]byte, 512))
		}
		w.Close()
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/disks/import?name=slow", r)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 8 * 512
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

// cutShort announces more bytes than it sends, and waits until the server has given up.
func cutShort(t *testing.T, s *httptest.Server, what string, size int, sent []byte) {
	t.Helper()
	conn, err := s.Client().Transport.(*http.Transport).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/v1/disks/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", what, size)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn)
}

// Who is about to end exports nothing.
func TestExportNeedsOneThatStays(t *testing.T) {
	for _, stays := range []bool{true, false} {
		s := newDisks(t, 64<<20, stays)
		post(t, s, "create", web.DiskOrder{Name: "a", Size: 1 << 20}, nil)
		code, text := post(t, s, "export", web.DiskOrder{Name: "a"}, nil)
		if stays && (code != http.StatusOK || !strings.Contains(text, `"uri":"nbd:a"`)) || !stays && code != http.StatusServiceUnavailable {
			t.Errorf("stays %v: %d %s", stays, code, text)
		}
	}
}

func TestCheckTellsHowFarItIs(t *testing.T) {
	s := newDisks(t, 64<<20, true)
	post(t, s, "import", web.DiskOrder{Name: "a"}, strings.NewReader("some bytes"))
	_, text := post(t, s, "check", web.DiskOrder{}, nil)
	var last web.CheckStep
	for lines := json.NewDecoder(strings.NewReader(text)); lines.More(); {
		last = web.CheckStep{}
		if err := lines.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	if last.Done != 1 || last.Of != 1 || last.Report == nil || last.Report.Blocks != 1 || last.Report.Replicas != 1 || last.Problem != nil {
		t.Errorf("the last line is %+v of %s", last, text)
	}
}

// Whatever arrives, pieces come in order, do not overlap, and end at the size.
func FuzzPieces(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00{\"error\":\"no\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		end := int64(0)
		size, err := web.ReadPieces(bytes.NewReader(data), func(p []byte, offset int64) error {
			if offset < end || len(p) == 0 || offset+int64(len(p)) < offset {
				t.Fatalf("%d bytes at %d after %d", len(p), offset, end)
			}
			end = offset + int64(len(p))
			return nil
		})
		if err == nil && size < end {
			t.Fatalf("a size of %d with bytes up to %d", size, end)
		}
	})
}
