package mine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gleaner/trace"
	"gleaner/trace/mine/corpus"
	"gleaner/trace/mine/minetest"
)

// BenchmarkMine mines the traffic of uploading workers at five scales: files of
// one block with three reports each, in all about the number of calls in the name.
func BenchmarkMine(b *testing.B) {
	for _, calls := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("%dcalls", calls), func(b *testing.B) {
			for b.Loop() {
				c := corpus.New()
				for _, n := range []int{3, 4, 6, 8, 12} {
					c.Learn(uploads(c, n, calls/33/6))
				}
				m, err := Learn(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				if got := m.Report().Arguments; got.Unknown > 1 {
					b.Fatalf("%+v", m.Report().Unknown)
				}
			}
			b.ReportMetric(float64(calls)*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func uploads(c *corpus.Corpus, n, files int) *corpus.Recording {
	r := c.Begin(fmt.Sprintf("n%03d", n))
	chance := rand.New(rand.NewPCG(uint64(n), 0))
	var call trace.Call
	id := 0
	for i := range files + 1 {
		for k := range n {
			add := func(method string, request, response []trace.Leaf) {
				call = trace.Call{Scale: n, Start: int64(1e18) + int64(id)*1e6, End: int64(1e18) + int64(id)*1e6 + 1e5, Sender: fmt.Sprintf("worker-%d", k),
					Target: "namenode", Method: method, Request: request, Response: response}
				id++
				r.Add(&call)
			}
			uuid := minetest.Leaf("uuid", fmt.Sprintf("%q", fmt.Sprintf("w%d-%d", n, k*7919)))
			if i == 0 {
				add("register", []trace.Leaf{minetest.Leaf("host", fmt.Sprintf("%q", fmt.Sprintf("node-%d", k))), uuid}, nil)
				continue
			}
			file, block := minetest.Leaf("file", fmt.Sprint(id+1000)), minetest.Leaf("block", fmt.Sprint(chance.Int64N(1e12)))
			add("create", []trace.Leaf{minetest.Leaf("src", fmt.Sprintf("%q", fmt.Sprintf("/in/w-%d/part-%05d", k, i-1))), uuid}, []trace.Leaf{file})
			add("addBlock", []trace.Leaf{file, uuid}, []trace.Leaf{block})
			for range 3 {
				add("received", []trace.Leaf{block, minetest.Leaf("size", "120000")}, nil)
			}
			add("complete", []trace.Leaf{file, block}, []trace.Leaf{minetest.Leaf("result", "true")})
		}
	}
	return r
}
