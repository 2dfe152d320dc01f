package history

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawPoints makes the points of one day as sources make them: mostly even
// intervals, mostly few decimals, memory or not, and now and then anything.
func drawPoints(t *rapid.T, day int64) []point {
	unit := rapid.SampledFrom([]int64{1, 10, 1000, 120_000}).Draw(t, "unit")
	decimals := rapid.SampledFrom([]int32{1, 100, 10_000}).Draw(t, "decimals")
	withMem := rapid.Bool().Draw(t, "mem")
	milli := day*dayMilli + rapid.Int64Range(0, 1000).Draw(t, "start")
	var points []point
	for range rapid.IntRange(1, 60).Draw(t, "count") {
		p := point{milli, rapid.Int32Range(0, million/decimals).Draw(t, "cpu") * decimals, absent}
		if withMem && rapid.IntRange(0, 9).Draw(t, "has") > 0 {
			p.mem = rapid.Int32Range(0, million).Draw(t, "mem")
		}
		points = append(points, p)
		milli += unit * rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 9}).Draw(t, "interval")
	}
	return points
}

func TestChunkKeepsItsPoints(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		day := rapid.Int64Range(0, lastMilli/dayMilli-1).Draw(t, "day")
		points := drawPoints(t, day)
		got, err := c.decode(nil, day, c.encode(points))
		if err != nil || !slices.Equal(got, points) {
			t.Fatalf("got %v, %v\nwant %v", got, err, points)
		}
	})
}

func TestChunkIsSmall(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	var points []point
	for i := range int64(720) { // two-minute samples of a steady server, to a hundredth of a percent
		points = append(points, point{i * 120_000, int32(30_00+i*i%40) * 100, absent})
	}
	if size := len(c.encode(points)); size > len(points) {
		t.Errorf("%d points take %d bytes", len(points), size)
	}
}

func FuzzDecodeChunk(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.encode([]point{{0, 5, absent}, {120_000, 7, absent}}))
	f.Add(c.encode([]point{{1, 500_000, 10}, {2, million, absent}, {9000, 0, million}}))
	f.Fuzz(func(t *testing.T, chunk []byte) {
		points, err := c.decode(nil, 3, chunk)
		if err != nil {
			return
		}
		before := int64(-1)
		for _, p := range points {
			if p.milli <= before || p.milli/dayMilli != 3 || uint32(p.cpu) > million || p.mem != absent && uint32(p.mem) > million {
				t.Fatalf("decoded %v", points)
			}
			before = p.milli
		}
		again, err := c.decode(nil, 3, c.encode(points))
		if err != nil || !slices.Equal(points, again) {
			t.Fatalf("%v came back as %v, %v", points, again, err)
		}
	})
}
