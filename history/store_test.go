package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gleaner/cluster"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// A twin is the dumbest store there is.
type twin struct {
	samples map[cluster.ServerID]map[int64]Sample
	owner   map[cluster.ServerID]cluster.TenantID
}

func newTwin() *twin {
	return &twin{map[cluster.ServerID]map[int64]Sample{}, map[cluster.ServerID]cluster.TenantID{}}
}

func (tw *twin) add(s Sample) {
	if tw.samples[s.Server] == nil {
		tw.samples[s.Server] = map[int64]Sample{}
		tw.owner[s.Server] = cluster.TenantID(s.Server)
	}
	if s.Tenant != "" {
		tw.owner[s.Server] = s.Tenant
	}
	s.Tenant = ""
	tw.samples[s.Server][s.Milli] = s
}

// window averages the slow way: each slot asks every sample whether it is in
// it; then each server counts by its distance from its own mean.
func (tw *twin) window(w cluster.Window) map[cluster.TenantID][]float32 {
	out := map[cluster.TenantID][]float32{}
	for _, tenant := range tw.owner {
		var levels []float64
		distances := make([][]float64, w.Len)
		for server, owner := range tw.owner {
			if owner != tenant {
				continue
			}
			var all []float64
			own := map[int]float64{}
			for i := range w.Len {
				from := w.From.Add(time.Duration(i) * w.Step)
				var values []float64
				for _, s := range tw.samples[server] {
					if !s.Time().Before(from) && s.Time().Before(from.Add(w.Step)) {
						values = append(values, float64(s.CPU))
					}
				}
				if len(values) > 0 {
					own[i] = mean(values)
					all = append(all, own[i])
				}
			}
			if len(all) > 0 {
				levels = append(levels, mean(all))
			}
			for i, v := range own {
				distances[i] = append(distances[i], v-mean(all))
			}
		}
		series := make([]float32, w.Len)
		for i := range series {
			series[i] = float32(max(0, min(1, mean(levels)+mean(distances[i]))))
		}
		out[tenant] = series
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values)) // 0/0 is NaN
}

var drawSample = rapid.Custom(func(t *rapid.T) Sample {
	s := Sample{
		Milli:  rapid.Int64Range(0, 40).Draw(t, "slot")*dayMilli/10 + rapid.SampledFrom([]int64{0, 0, 0, 250, 60_000}).Draw(t, "jitter"),
		Server: cluster.ServerID(rapid.SampledFrom([]string{"a", "a/b", "z"}).Draw(t, "server")),
		CPU:    fromMillionths(rapid.Int32Range(0, million).Draw(t, "cpu")),
		Mem:    float32(math.NaN()),
	}
	if rapid.Bool().Draw(t, "mem") {
		s.Mem = 0.25
	}
	if rapid.IntRange(0, 9).Draw(t, "named") == 0 {
		s.Tenant = cluster.TenantID(rapid.SampledFrom([]string{"web/front", "web/back"}).Draw(t, "tenant"))
	}
	return s
})

// TestStoreAgainstTwin imports, gives up, removes and reopens at random, with
// so little room that most chunks are written in pieces.
func TestStoreAgainstTwin(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		store, clock := mem.New(), newClock()
		s := openAt(t, store, clock)
		dumb := newTwin()
		t.Repeat(map[string]func(*rapid.T){
			"import": func(t *rapid.T) {
				im := begin(t, s)
				im.room = rapid.IntRange(1, 60).Draw(t, "room")
				samples := rapid.SliceOfN(drawSample, 1, 40).Draw(t, "samples")
				for _, sample := range samples {
					if err := im.Add(ctx, sample); err != nil {
						t.Fatal(err)
					}
				}
				if rapid.IntRange(0, 4).Draw(t, "fate") == 0 {
					check(t, im.Abort(ctx))
					return
				}
				check(t, im.Commit(ctx))
				check(t, im.Abort(ctx)) // as a deferred one: it does nothing
				for _, sample := range samples {
					dumb.add(sample)
				}
			},
			"crash": func(t *rapid.T) {
				im := begin(t, s)
				im.room = 0
				check(t, im.Add(ctx, drawSample.Draw(t, "sample")))
				s = openAt(t, store, clock)
				clock.advance(time.Duration(rapid.IntRange(0, 2).Draw(t, "leases")) * importLease)
			},
			"remove": func(t *rapid.T) {
				server := drawSample.Draw(t, "sample").Server
				found, err := s.Remove(ctx, server)
				check(t, err)
				if _, known := dumb.owner[server]; found != known {
					t.Fatalf("removing %s found %v, want %v", server, found, known)
				}
				delete(dumb.samples, server)
				delete(dumb.owner, server)
			},
			"before": func(t *rapid.T) {
				milli := drawSample.Draw(t, "sample").Milli
				check(t, s.RemoveBefore(ctx, time.UnixMilli(milli)))
				for _, samples := range dumb.samples {
					maps.DeleteFunc(samples, func(at int64, _ Sample) bool { return at < milli })
				}
			},
			"": func(t *rapid.T) { compare(t, s, dumb) },
		})
	})
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func check(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A clock goes when it is told to.
type clock struct{ time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) advance(d time.Duration) { c.Time = c.Add(d) }

func open(t fataler, store kv.Store) *Store {
	t.Helper()
	return openAt(t, store, newClock())
}

func openAt(t fataler, store kv.Store, c *clock) *Store {
	t.Helper()
	s, err := Open(context.Background(), store, func() time.Time { return c.Time })
	check(t, err)
	return s
}

func begin(t fataler, s *Store) *Import {
	t.Helper()
	im, err := s.Begin(context.Background())
	check(t, err)
	return im
}

func compare(t *rapid.T, s *Store, dumb *twin) {
	ctx := context.Background()
	all, err := s.Summaries(ctx)
	check(t, err)
	if len(all) != len(dumb.owner) {
		t.Fatalf("%d servers, want %d", len(all), len(dumb.owner))
	}
	for _, sum := range all {
		var got []Sample
		for sample, err := range s.Samples(ctx, sum.ID, time.UnixMilli(0), time.UnixMilli(lastMilli)) {
			check(t, err)
			got = append(got, sample)
		}
		var want []Sample
		for _, at := range slices.Sorted(maps.Keys(dumb.samples[sum.ID])) {
			want = append(want, dumb.samples[sum.ID][at])
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("samples of %s\n got %v\nwant %v", sum.ID, got, want)
		}
		if sum.Samples != int64(len(want)) || len(want) > 0 && (!sum.First.Equal(want[0].Time()) || !sum.Last.Equal(want[len(want)-1].Time())) {
			t.Fatalf("summary %+v of %v", sum, want)
		}
	}
	w := cluster.Window{From: time.UnixMilli(dayMilli / 2), Step: time.Duration(rapid.SampledFrom([]int{60, 86_400, 10_000}).Draw(t, "step")) * time.Second, Len: 30}
	series, err := s.Window(ctx, w)
	check(t, err)
	want := dumb.window(w)
	if len(series) != len(want) {
		t.Fatalf("%d tenants, want %d", len(series), len(want))
	}
	for _, one := range series {
		for i, v := range one.CPU {
			if u := want[one.Tenant][i]; !(v == u || v != v && u != u || math.Abs(float64(v-u)) < 1e-6) {
				t.Fatalf("%s slot %d is %v, want %v", one.Tenant, i, v, u)
			}
		}
	}
}

// TestNothingIsSeenBeforeCommit looks from a second store at every moment of an import.
func TestNothingIsSeenBeforeCommit(t *testing.T) {
	ctx := context.Background()
	store := mem.New()
	s, other := open(t, store), open(t, store)
	im := begin(t, s)
	im.room = 0 // every sample is written at once
	im.SetServers([]cluster.Server{{ID: "a", Rack: "r"}})
	check(t, im.Add(ctx, Sample{Milli: 5, Server: "a", CPU: 0.5, Mem: 0.5}))
	if _, _, err := other.LastWindow(ctx, Choice{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("window before the commit: %v", err)
	}
	if all, err := other.Servers(ctx); err != nil || len(all) != 0 {
		t.Errorf("servers before the commit: %v, %v", all, err)
	}
	check(t, im.Commit(ctx))
	all, err := other.Summaries(ctx)
	if err != nil || len(all) != 1 || all[0].First.UnixMilli() != 5 || all[0].Last.UnixMilli() != 5 || all[0].Rack != "r" {
		t.Errorf("after the commit: %+v, %v", all, err)
	}
}

func TestImportRefusesNonsense(t *testing.T) {
	im := begin(t, open(t, mem.New()))
	for _, s := range []Sample{
		{Server: "a", CPU: float32(math.NaN())}, {Server: "a", CPU: 1.01}, {Server: "a", CPU: -0.1}, {Server: "a", Mem: 2},
		{Server: "a", Milli: -1}, {Server: "a", Milli: lastMilli}, {CPU: 0.5},
	} {
		if err := im.Add(context.Background(), s); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

// TestTenants: the inventory says who owns a server; where it is silent, the
// samples do; where both are, the server is on its own.
func TestTenants(t *testing.T) {
	ctx := context.Background()
	s := open(t, mem.New())
	im := begin(t, s)
	for _, sample := range []Sample{{Server: "a", Tenant: "from samples"}, {Server: "b", Tenant: "from samples"}, {Server: "c"}} {
		check(t, im.Add(ctx, sample))
	}
	im.SetServers([]cluster.Server{{ID: "a", Environment: "web", Function: "front", CPU: 8000}, {ID: "d", Rack: "r1"}})
	check(t, im.Commit(ctx))

	im = begin(t, s)
	im.SetServers([]cluster.Server{{ID: "a", Rack: "r9"}}) // says nothing of the tenant
	check(t, im.Commit(ctx))
	all, err := s.Servers(ctx)
	check(t, err)
	got := ""
	for _, server := range all {
		got += fmt.Sprintf("%s %s %s %d\n", server.ID, server.Tenant(), server.Rack, server.CPU)
	}
	if want := "a web/front r9 8000\nb from samples  0\nc c  0\nd d r1 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestGapsDoNotMoveTheAverage: two flat servers, one low and one high, each
// with gaps; their average stays where it is. A server without samples is not counted.
func TestGapsDoNotMoveTheAverage(t *testing.T) {
	ctx := context.Background()
	s := open(t, mem.New())
	im := begin(t, s)
	im.SetServers([]cluster.Server{{ID: "silent", Environment: "web"}})
	for i := range int64(100) {
		if i%5 != 1 {
			check(t, im.Add(ctx, Sample{Milli: i * 300_000, Server: "low", CPU: 0.1, Tenant: "web"}))
		}
		if i < 40 || i > 70 {
			check(t, im.Add(ctx, Sample{Milli: i * 300_000, Server: "high", CPU: 0.6, Tenant: "web"}))
		}
	}
	check(t, im.Commit(ctx))
	series, err := s.Window(ctx, cluster.Window{From: time.UnixMilli(0), Step: 5 * time.Minute, Len: 100})
	check(t, err)
	if len(series) != 1 || series[0].Servers != 2 {
		t.Fatalf("%d tenants, the first of %d servers", len(series), series[0].Servers)
	}
	for i, v := range series[0].CPU {
		none := i > 40 && i <= 70 && i%5 == 1
		if none != (v != v) || !none && math.Abs(float64(v)-0.35) > 1e-6 {
			t.Errorf("slot %d is %v", i, v)
		}
	}
}

// TestEnd: a clock in the future is ignored and counted; servers that were
// retired long ago do not hold the window back, however many they were.
func TestEnd(t *testing.T) {
	ctx := context.Background()
	const month = 30 * 24 * time.Hour
	s := open(t, mem.New())
	if _, _, err := s.LastWindow(ctx, Choice{Length: month}); !errors.Is(err, ErrEmpty) {
		t.Errorf("last window of an empty store: %v", err)
	}
	add := func(server string, from, to int64) {
		im := begin(t, s)
		for day := from; day <= to; day++ {
			check(t, im.Add(ctx, Sample{Milli: day * dayMilli, Server: cluster.ServerID(server)}))
		}
		check(t, im.Commit(ctx))
	}
	expect := func(day int64, later int) {
		t.Helper()
		w, n, err := s.LastWindow(ctx, Choice{Length: month, Step: time.Hour})
		if err != nil || w.To().UnixMilli() != day*dayMilli+3_600_000 || n != later {
			t.Errorf("window %v to %v with %d later, %v; want day %d with %d", w.From, w.To(), n, err, day, later)
		}
	}
	add("a", 0, 30)
	expect(30, 0)
	add("ahead", 430, 430)
	expect(30, 1)
	for i := range 4 {
		add(fmt.Sprint("retired", i), 0, 29)
	}
	add("a", 31, 100)
	expect(100, 1)
}

// TestWindowOfATenant: the samples of one server are few beside those that were
// imported of others, long ago. Its own window ends with its own samples.
func TestWindowOfATenant(t *testing.T) {
	ctx := context.Background()
	s := open(t, mem.New())
	im := begin(t, s)
	for i := range 30 {
		for slot := range int64(100) {
			check(t, im.Add(ctx, Sample{Milli: slot * 300_000, Server: cluster.ServerID(fmt.Sprint("imported", i))}))
		}
	}
	for slot := range int64(20) {
		check(t, im.Add(ctx, Sample{Milli: 365*dayMilli + slot*120_000, Server: "here"}))
	}
	check(t, im.Commit(ctx))
	for _, tc := range []struct {
		tenant cluster.TenantID
		want   cluster.Window
	}{
		{"", cluster.Window{From: time.UnixMilli(0), Step: 5 * time.Minute, Len: 100}},
		{"here", cluster.Window{From: time.UnixMilli(365 * dayMilli), Step: 2 * time.Minute, Len: 20}},
	} {
		w, _, err := s.LastWindow(ctx, Choice{Tenant: tc.tenant, Length: Month})
		if err != nil || !w.From.Equal(tc.want.From) || w.Step != tc.want.Step || w.Len != tc.want.Len {
			t.Errorf("window of %q: %+v, %v, want %+v", tc.tenant, w, err, tc.want)
		}
	}
	if _, _, err := s.LastWindow(ctx, Choice{Tenant: "elsewhere"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("window of a tenant without samples: %v", err)
	}
}

func TestReimages(t *testing.T) {
	ctx := context.Background()
	s := open(t, mem.New())
	at := func(second int64) time.Time { return time.Unix(second, 0).UTC() }
	im := begin(t, s)
	im.AddReimages([]cluster.Reimage{{At: at(9), Server: "b", Cause: "test"}, {At: at(9), Server: "a", Cause: "test"}, {At: at(3), Server: "b", Cause: "deploy"}, {At: at(9), Server: "b", Cause: "repair"}})
	check(t, im.Commit(ctx))
	all, err := s.Reimages(ctx)
	if want := []cluster.Reimage{{At: at(3), Server: "b", Cause: "deploy"}, {At: at(9), Server: "a", Cause: "test"}, {At: at(9), Server: "b", Cause: "repair"}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("reimages %v, %v, want %v", all, err, want)
	}
}

func TestStep(t *testing.T) {
	for _, tc := range []struct{ interval, want time.Duration }{
		{300 * time.Second, 5 * time.Minute}, {301 * time.Second, 5 * time.Minute}, {119 * time.Second, 2 * time.Minute},
		{7 * time.Minute, 10 * time.Minute}, {time.Millisecond, time.Second}, {100 * time.Hour, 24 * time.Hour},
	} {
		if got := RoundStep(tc.interval); got != tc.want {
			t.Errorf("RoundStep(%v) = %v, want %v", tc.interval, got, tc.want)
		}
	}

	// Intervals of 1 s to 1000 s, most of them short, and a night without any.
	irregular := []int64{12 * 3_600_000}
	for i := range int64(1000) {
		irregular = append(irregular, 1000+i*i)
	}
	if got := chooseStep(irregular); got != 10*time.Minute {
		t.Errorf("irregular samples get slots of %v", got)
	}

	ctx := context.Background()
	s := open(t, mem.New())
	if _, err := s.Step(ctx, nil); !errors.Is(err, ErrTooFew) {
		t.Errorf("step of an empty store: %v", err)
	}
	im := begin(t, s)
	for i := range int64(5000) { // every 5 min, a tenth of them missing, and one a year late
		if i%10 != 3 {
			check(t, im.Add(ctx, Sample{Milli: i * 300_000, Server: "a"}))
		}
	}
	check(t, im.Add(ctx, Sample{Milli: 365 * dayMilli, Server: "a"}))
	for i := range int64(100) {
		check(t, im.Add(ctx, Sample{Milli: i * 301_000, Server: "b"}))
	}
	check(t, im.Commit(ctx))
	if w, _, err := s.LastWindow(ctx, Choice{}); err != nil || w.Step != 5*time.Minute || w.From.UnixMilli() != 0 || w.Len != 365*288+1 {
		t.Errorf("window %+v, %v", w, err)
	}
}

func TestTheNewestTaskRunsAreKept(t *testing.T) {
	ctx := t.Context()
	s := open(t, mem.New())
	at := func(second int64) time.Time { return time.Unix(second, 0).UTC() }
	for i := range KeptTaskRuns + 5 {
		for _, stage := range []string{"sort/map", "sort/reduce"} {
			check(t, s.AddTaskRun(ctx, TaskRun{Stage: stage, Start: at(int64(1000 + i)), Took: time.Second, Used: []float64{float64(i), 0}, Beside: []float64{0, 1}}))
		}
	}
	all, err := s.TaskRuns(ctx)
	check(t, err)
	if len(all) != 2*KeptTaskRuns || all[0].Stage == all[len(all)-1].Stage {
		t.Fatalf("%d runs are kept", len(all))
	}
	if r := all[0]; !r.Start.Equal(at(1005)) || r.Used[0] != 5 || r.Beside[1] != 1 || r.Took != time.Second {
		t.Errorf("the oldest is %+v", r)
	}
	if s.AddTaskRun(ctx, TaskRun{Start: at(1)}) == nil {
		t.Error("a run of nothing was taken in")
	}
}

// A counting table counts the bytes that are put into it.
type counting struct {
	kv.LooseTable
	bytes, puts int
}

func (c *counting) Put(ctx context.Context, records ...kv.Record) error {
	for _, r := range records {
		c.bytes += len(r.Key.Part) + len(r.Key.Row) + len(r.Value)
	}
	c.puts++
	return c.LooseTable.Put(ctx, records...)
}

// Samples that come one by one, two minutes apart, lie in a few pieces at any
// time and in one when their day is over, and the day is not written again for
// each of them.
func TestAppend(t *testing.T) {
	store := open(t, mem.New())
	table := &counting{LooseTable: store.samples}
	store.samples = table
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	pieces := func(day time.Time) int {
		n := 0
		for _, err := range store.samples.Scan(t.Context(), days("s", day.UnixMilli()/dayMilli, day.UnixMilli()/dayMilli)) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	const aDay = 720
	chance := rand.New(rand.NewPCG(1, 0))
	var cpu []float32
	for i := range aDay + 1 {
		cpu = append(cpu, fromMillionths(chance.Int32N(million)))
		at := from.Add(time.Duration(i) * 2 * time.Minute)
		if err := store.Append(t.Context(), Sample{Milli: at.UnixMilli(), Server: "s", CPU: cpu[i], Mem: chance.Float32()}); err != nil {
			t.Fatal(err)
		}
		if n := pieces(at); n > maxPieces {
			t.Fatalf("after %d samples there are %d pieces", i+1, n)
		}
	}
	if n := pieces(from); n != 1 {
		t.Errorf("a day that is over lies in %d pieces", n)
	}
	n := 0
	for s, err := range store.Samples(t.Context(), "s", from, from.AddDate(0, 0, 2)) {
		if err != nil || !s.Time().Equal(from.Add(time.Duration(n)*2*time.Minute)) || s.CPU != cpu[n] {
			t.Fatalf("sample %d: %+v, %v", n, s, err)
		}
		n++
	}
	if n != aDay+1 {
		t.Errorf("%d samples", n)
	}
	t.Logf("%d bytes were written by %d puts", table.bytes, table.puts)
	if table.bytes > 100_000 {
		t.Errorf("%d bytes were written for a day of %d samples", table.bytes, aDay)
	}
}
