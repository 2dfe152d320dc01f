package replay

import (
	"os"
	"runtime"
	"testing"

	"gleaner/trace/grow"
	"gleaner/trace/program"
	"gleaner/trace/replay/plan"
)

// BenchmarkPlayerBytes60000players shows the memory of an idle player
// without its connection.
func BenchmarkPlayerBytes60000players(b *testing.B) {
	text, err := os.ReadFile("../../examples/replay/heartbeat.yaml")
	if err != nil {
		b.Fatal(err)
	}
	p, err := program.Read("heartbeat.yaml", text)
	if err != nil {
		b.Fatal(err)
	}
	const n = 60_000
	pl := plan.New(p, grow.Setting{Scale: n}, func(string) bool { return true })
	r := &controller{plan: pl, Options: Options{Seed: 1}}
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := held()
		players := make([]*player, n)
		for i := range players {
			players[i] = newPlayer(r, pl.Kinds[0], i)
			players[i].links = []*link{newLink(nil, Identity{Sender: players[i].Sender})}
		}
		b.ReportMetric(float64(held()-before)/n, "B/player")
		runtime.KeepAlive(players)
	}
}
