package chart

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

// everything uses each kind of mark, and values that break naive plots.
func everything() Figure {
	x := []float64{1, 2, 3, 4, 5}
	return Figure{Name: "all", Columns: 2, Panels: []Panel{
		{Title: "lines", X: "hours", Y: "share", Lines: []Line{{Name: "a", X: x, Y: []float64{1, math.NaN(), 3, 2, 5}}, {Name: "b", X: x, Y: x, Step: true, Dashed: true}}},
		{Title: "bands", Bands: []Band{{Name: "p5-p95", X: x, Low: []float64{0, 0, 1, 1, math.NaN()}, High: []float64{2, 2, 3, 3, 4}}}, Lines: []Line{{Name: "mean", X: x, Y: []float64{1, 1, 2, 2, 3}}}},
		{Title: "bars", Bars: Bars{Groups: []string{"DC-0", "DC-1"}, Names: []string{"ours", "paper"}, Values: [][]float64{{1, 2}, {2, 1}}}},
		{Title: "stack", Bars: Bars{Groups: strings.Fields("a b c d e f g h i j"), Names: []string{"x", "y"}, Values: [][]float64{make([]float64, 10), make([]float64, 10)}, Stacked: true}},
		{Title: "log", LogX: true, LogY: true, Lines: []Line{{X: []float64{0, 1, 10}, Y: []float64{5, 0, 100}, Dots: true}}},
		{Title: "nothing", XTicks: []Tick{{At: 0, Label: "Mon"}}, YRange: &[2]float64{0, 1}},
		{Title: "one point", Lines: []Line{{Name: "p", X: []float64{3}, Y: []float64{3}}}},
		{Title: "flat", Lines: []Line{{X: x, Y: make([]float64, 5)}}},
	}}
}

func TestSaveWritesAnSVGAndAPNG(t *testing.T) {
	paths, err := everything().Save(t.TempDir() + "/new")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 2 {
		t.Fatalf("paths %v", paths)
	}
	svg, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the SVG does not parse: %v", err)
		}
	}
	for _, word := range []string{"lines", "hours", "share", "p5-p95", "DC-1", "Mon"} {
		if !bytes.Contains(svg, []byte(word)) {
			t.Errorf("the SVG does not say %q", word)
		}
	}
	if bytes.Contains(svg, []byte("NaN")) {
		t.Error("the SVG has NaN coordinates")
	}
	f, err := os.Open(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 2*6*120 || b.Dy() != 4*3*120 {
		t.Errorf("PNG of %v", b)
	}
}

func TestTheSameFigureIsTheSameBytes(t *testing.T) {
	var a, b bytes.Buffer
	if err := everything().WriteSVG(&a); err != nil {
		t.Fatal(err)
	}
	if err := everything().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two drawings of one figure differ")
	}
}
