package chart

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"

	"gonum.org/v1/plot/vg"
)

// drawn is a figure as PNG.
func drawn(t *testing.T, f Figure) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := f.write(&b, "png"); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// box is the smallest rectangle with all pixels of a colour, and how many these are.
func box(img image.Image, like func(color.RGBA) bool) (out image.Rectangle, n int) {
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if like(color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)) {
				out = out.Union(image.Rect(x, y, x+1, y+1))
				n++
			}
		}
	}
	return out, n
}

// The data fill the whole panel, so that a legend on any part of it would show.
func TestLegendIsNotOnTheData(t *testing.T) {
	x := []float64{1, 10}
	for _, panel := range []Panel{{}, {LogX: true, LogY: true}, {YRange: &[2]float64{1, 10}}} {
		panel.Bands = []Band{{X: x, Low: []float64{1, 1}, High: []float64{10, 10}}}
		for _, name := range []string{"planned", "all 15KDisk", "all 7.2KDisk", "all SSD, with a name that is rather long", "another one that does not fit beside it"} {
			panel.Lines = append(panel.Lines, Line{Name: name, X: x, Y: []float64{math.NaN(), math.NaN()}})
		}
		img := drawn(t, Figure{Panels: []Panel{panel}})
		blue := shade(0, 0x50)
		r, g, b, a := blue.RGBA()
		over := func(c uint32) uint8 { return uint8((c + (0xffff - a)) >> 8) }
		band, n := box(img, func(c color.RGBA) bool { return c == color.RGBA{over(r), over(g), over(b), 0xff} })
		if n == 0 {
			t.Fatal("there is no band")
		}
		dark := func(c color.RGBA) bool { return int(c.R)+int(c.G)+int(c.B) < 200 }
		orange := func(c color.RGBA) bool { return c == palette[1] }
		for y := band.Min.Y + 2; y < band.Max.Y-2; y++ {
			for x := band.Min.X + 2; x < band.Max.X-2; x++ {
				if c := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA); dark(c) || orange(c) {
					t.Fatalf("%+v at %d,%d, within the data %v", c, x, y, band)
				}
			}
		}
		if mark, n := box(img, orange); n == 0 || mark.Min.Y < band.Max.Y {
			t.Errorf("the mark of a line is at %v, and the data at %v", mark, band)
		}
	}
}

// Entries are on as many lines as they need.
func TestLegendLines(t *testing.T) {
	p, err := Panel{Lines: []Line{{Name: "one"}, {Name: "two"}, {Name: "three"}}}.plot(false)
	if err != nil {
		t.Fatal(err)
	}
	one := markWidth + markSpace + p.style().Width("one")
	for width, want := range map[vg.Length]int{1000: 1, one + 1: 3, 1: 3} {
		if got := p.lines(width); len(got) != want {
			t.Errorf("%v wide: %d lines, want %d", width, len(got), want)
		}
	}
	if p, err = (Panel{}).plot(false); err != nil || len(p.lines(1000)) != 0 {
		t.Errorf("no entries: %v, %v", p.lines(1000), err)
	}
}

// A bar of height 0 is there, and so is its number.
func TestZeroBarsAreVisible(t *testing.T) {
	for _, tc := range []struct {
		name string
		bars Bars
		like color.RGBA
		want bool
	}{
		{"a zero beside others", Bars{Groups: []string{"a", "b"}, Names: []string{"x", "y"}, Values: [][]float64{{1, 2}, {0, 0}}}, palette[1], true},
		{"nothing stacked", Bars{Groups: []string{"a"}, Names: []string{"x", "y"}, Values: [][]float64{{0}, {0}}, Stacked: true}, color.RGBA{A: 0xff}, true},
		{"a part of a stack that is 0", Bars{Groups: []string{"a"}, Names: []string{"x", "y"}, Values: [][]float64{{1}, {0}}, Stacked: true}, palette[1], false},
	} {
		f := Figure{Panels: []Panel{{Bars: tc.bars}}, bare: true} // without a legend, whose marks are of the same colours
		_, n := box(drawn(t, f), func(c color.RGBA) bool { return c == tc.like })
		if tc.name == "nothing stacked" {
			full := tc.bars
			full.Values = [][]float64{{1}, {0}}
			_, without := box(drawn(t, Figure{Panels: []Panel{{Bars: full}}, bare: true}), func(c color.RGBA) bool { return c == tc.like })
			n -= without // axes and their numbers
		}
		if n > 50 != tc.want {
			t.Errorf("%s: %d pixels", tc.name, n)
		}
	}
}
