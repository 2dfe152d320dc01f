package dataserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"testing"
	"time"

	"gleaner/fabric/dataserver"
	"gleaner/fabric/disk"
)

// toxics are what networks do to connections.
var toxics = []string{
	`{"type":"reset_peer","stream":"downstream","attributes":{"timeout":30}}`,
	`{"type":"reset_peer","stream":"upstream","attributes":{"timeout":30}}`,
	`{"type":"limit_data","stream":"downstream","attributes":{"bytes":20000}}`,
	`{"type":"limit_data","stream":"upstream","attributes":{"bytes":50000}}`,
	`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
	`{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`,
	`{"type":"latency","stream":"downstream","attributes":{"latency":20,"jitter":20}}`,
	`{"type":"slicer","stream":"upstream","attributes":{"average_size":500,"size_variation":499,"delay":10}}`,
}

// TestToxiproxy has a front write and read through a network that does its worst. It fences itself off after each loss, as
// fronts do; then what it reads is what it wrote last, or what it does not know about.
func TestToxiproxy(t *testing.T) {
	program, err := exec.LookPath("toxiproxy-server")
	if err != nil {
		t.Skip("no toxiproxy-server here; .ci/run builds it from github.com/Shopify/toxiproxy/v2/cmd/server")
	}
	for _, scheme := range []string{"", "tls:"} {
		t.Run("over "+scheme, func(t *testing.T) {
			t.Parallel()
			_, d := oneGroup(t, "d")
			at := serve(t, scheme+"127.0.0.1:0", dataserver.Options{}, d)
			api, between := proxy(t, program, at[len(scheme):])
			f := &sufferer{T: t, disk: dial(t, scheme+between).Disk("d"), token: 2, rng: rand.New(rand.NewPCG(1, 2))}
			for i := range f.may {
				f.may[i] = []uint64{0}
			}
			must(t, d.Write(1, 1, 1, 0, make([]byte, len(f.may)*part), false))
			for _, toxic := range toxics {
				ask(t, http.MethodPost, api+"/proxies/p/toxics", `{"name":"it",`+toxic[1:])
				for range 12 {
					f.step()
				}
				ask(t, http.MethodDelete, api+"/proxies/p/toxics/it", "")
				f.recover()
				f.read(f.rng.IntN(len(f.may)))
			}
			if f.lost < 5 {
				t.Errorf("only %d requests were lost", f.lost)
			}
		})
	}
}

const part = 3 * disk.SliceSize

// A sufferer knows what each part of a group may be.
type sufferer struct {
	*testing.T
	disk  dataserver.Disk
	token uint64
	rng   *rand.Rand
	may   [8][]uint64
	next  uint64
	lost  int
}

func (f *sufferer) step() {
	at := f.rng.IntN(len(f.may))
	f.next++
	ctx, cancel := context.WithTimeout(f.Context(), 200*time.Millisecond)
	defer cancel()
	err := f.disk.Write(ctx, 1, 1, f.token, int64(at*part), bytes.Repeat([]byte{byte(f.next)}, part), f.rng.IntN(4) == 0)
	if err == nil {
		f.may[at] = []uint64{f.next}
		return
	}
	f.may[at] = append(f.may[at], f.next)
	f.blame(err)
}

// blame wants an error to be one that a network brings.
func (f *sufferer) blame(err error) {
	f.Helper()
	f.lost++
	if !errors.Is(err, dataserver.ErrLost) && !errors.Is(err, dataserver.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		f.Fatal(err)
	}
}

// recover fences off all that was lost, so that it does not come back.
func (f *sufferer) recover() {
	f.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		f.token++
		err := f.disk.Fence(ctx, 1, f.token)
		cancel()
		if err == nil {
			break
		}
		f.blame(err)
		if time.Since(begun) > 30*time.Second {
			f.Fatal(err)
		}
	}
	for at := range f.may {
		f.read(at)
	}
}

func (f *sufferer) read(at int) {
	f.Helper()
	buf := make([]byte, part)
	must(f, f.disk.Read(f.Context(), 1, 1, int64(at*part), buf))
	var found []uint64
	for slice := range slices.Chunk(buf, disk.SliceSize) { // each is one or the other
		i := slices.IndexFunc(f.may[at], func(v uint64) bool { return bytes.Count(slice, []byte{byte(v)}) == len(slice) })
		if i < 0 {
			f.Fatalf("part %d has %d, and may be %v", at, slice[0], f.may[at])
		}
		found = append(found, f.may[at][i])
	}
	f.may[at] = slices.Compact(found)
}

// proxy starts a real toxiproxy in front of a target. It gives its API and the address of the proxy.
func proxy(t *testing.T, program, target string) (api, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	host, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	must(t, l.Close())
	cmd := exec.Command(program, "-host", host, "-port", port)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() // it keeps nothing
		cmd.Wait()
	})
	api = "http://" + net.JoinHostPort(host, port)
	for range 200 {
		if reply, err := http.Get(api + "/version"); err == nil {
			reply.Body.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var made struct{ Listen string }
	said := ask(t, http.MethodPost, api+"/proxies", fmt.Sprintf(`{"name":"p","listen":"127.0.0.1:0","upstream":%q,"enabled":true}`, target))
	must(t, json.Unmarshal(said, &made))
	return api, made.Listen
}

func ask(t *testing.T, verb, url, body string) []byte {
	t.Helper()
	r, err := http.NewRequest(verb, url, bytes.NewReader([]byte(body)))
	must(t, err)
	reply, err := http.DefaultClient.Do(r)
	must(t, err)
	defer reply.Body.Close()
	said, err := io.ReadAll(reply.Body)
	must(t, err)
	if reply.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", verb, url, said)
	}
	return said
}
