package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
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
		{Title: "parts", X: "time (UTC)", Y: "cores", Time: true, Stack: Stack{X: []float64{0, 60, 120, 180, 240}, Layers: []Layer{
			{Name: "primary", Colour: 0, Values: []float64{1, 2, math.NaN(), 1, 1}}, {Name: "idle", Colour: 7, Values: []float64{3, 2, math.NaN(), 3, 3}}}}},
		{Title: "tasks", X: "time (UTC)", Y: "task", Time: true, Spans: Spans{Rows: []string{"map-0", "map-1"}, Keys: []Key{{Name: "killed", Colour: 1}, {Name: "finished", Colour: 2}},
			All: []Span{{Row: 0, From: 10, To: 20, Colour: 1}, {Row: 1, From: 12, To: 33.5, Colour: 2}}}},
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
	if b := img.Bounds(); b.Dx() != 2*6*120 || b.Dy() != 5*3*120 {
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

// A themed figure leaves colours to the page's style sheet, and title and legend to
// its text.
func TestThemed(t *testing.T) {
	var buf bytes.Buffer
	if err := everything().WriteThemed(&buf); err != nil {
		t.Fatal(err)
	}
	graph := Graph{[]Node{{Name: "map", Note: "3 of 8 finished", Colour: 0}, {Name: "reduce <1>", After: []int{0}}, {Name: "merge", After: []int{0, 1}}}}
	if err := graph.WriteThemed(&buf); err != nil {
		t.Fatal(err)
	}
	text := buf.String()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("it does not parse: %v", err)
		}
	}
	for _, forbidden := range []string{"style", "NaN", "#", ">p5-p95<", ">bands<", "<1>", `class=""`, "rgb"} {
		if strings.Contains(text, forbidden) {
			t.Errorf("it has %q", forbidden)
		}
	}
	for _, want := range []string{`class="f0"`, `class="l1"`, `class="f7"`, `class="grid"`, `class="axis"`, ">hours<", ">map-1<", ">00:02<", ">3 of 8 finished<", `stroke-dasharray="4 3"`, `fill-opacity="0.31"`} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s", want)
		}
	}
}

// Each node is right of all that it comes after, whatever their order.
func TestGraphColumns(t *testing.T) {
	g := Graph{[]Node{{After: []int{1, 2}}, {After: []int{2}}, {}, {After: []int{0}}, {}}}
	if got, want := g.columns(), []int{2, 1, 0, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	boxes, width, height := g.place()
	for i, a := range boxes {
		if a.Min.X < 0 || a.Min.Y < 0 || a.Max.X > width || a.Max.Y > height {
			t.Errorf("box %d is at %v, outside %v x %v", i, a, width, height)
		}
		for j, b := range boxes[:i] {
			if a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y {
				t.Errorf("boxes %d and %d overlap", i, j)
			}
		}
	}
}

func TestKeysAndTables(t *testing.T) {
	panels := everything().Panels
	for i, want := range map[int]struct {
		keys []Key
		head string
		row  string
		rows int
	}{
		0: {[]Key{{"a", 0, false}, {"b", 1, false}}, "hours|a|b", "2||2", 5},
		1: {[]Key{{"p5-p95", 0, true}, {"mean", 0, false}}, "|p5-p95, low|p5-p95, high|mean", "2|0|2|1", 5},
		2: {[]Key{{"ours", 0, false}, {"paper", 1, false}}, "|ours, |paper, ", "DC-1|2|1", 2},
		7: {[]Key{{"primary", 0, false}, {"idle", 7, false}}, "time (UTC)|primary, cores|idle, cores", "1970-01-01 00:01:00|2|2", 5},
		8: {[]Key{{"killed", 1, false}, {"finished", 2, false}}, "task|from|for, seconds|end", "map-1|1970-01-01 00:00:12.0|21.5|finished", 2},
	} {
		head, rows := panels[i].Table()
		if got := panels[i].Keys(); !slices.Equal(got, want.keys) {
			t.Errorf("%s: keys %v, want %v", panels[i].Title, got, want.keys)
		}
		if got := strings.Join(head, "|"); got != want.head || len(rows) != want.rows || strings.Join(rows[1], "|") != want.row {
			t.Errorf("%s: %s and %d rows, %q; want %s and %d, %q", panels[i].Title, got, len(rows), rows[1], want.head, want.rows, want.row)
		}
	}
}

func TestCells(t *testing.T) {
	for v, want := range map[float64]string{0.012345: "0.01235", 1: "1", 999.94: "999.9", 1234.5: "1235", 10743.2: "10743", -2.5e6: "-2500000", 1e20: "1e+20", math.NaN(): ""} {
		if got := (Panel{}).cell(v, false); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0.01: "0.01", 1: "1", 999: "999", 1000: "1k", 10000: "10k", 2.5e6: "2.5M", 1e12: "1T", 1e15: "1000T"} {
		if got := short(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}

// A drawing of one panel says where its data are, so that values can be read off it; one of several does not.
func TestWhereTheDataAre(t *testing.T) {
	line := Panel{X: "n", Y: "s", LogX: true, Lines: []Line{{X: []float64{1, 100}, Y: []float64{2, 3}}}}
	var one, two, spans bytes.Buffer
	for out, f := range map[*bytes.Buffer]Figure{&one: {Panels: []Panel{line}}, &two: {Panels: []Panel{line, line}},
		&spans: {Panels: []Panel{{Time: true, Spans: Spans{Rows: []string{"a"}, All: []Span{{To: 60}}}}}}} {
		if err := f.WriteThemed(out); err != nil {
			t.Fatal(err)
		}
	}
	var left, right, top, bottom float64
	text := one.String()
	_, area, _ := strings.Cut(text, `data-area="`)
	if n, err := fmt.Sscanf(area, "%g %g %g %g", &left, &right, &top, &bottom); n != 4 || !(0 < left && left < right && right < 6*72 && 0 <= top && top < bottom && bottom < 3*72) {
		t.Errorf("%v: from %g to %g and from %g to %g", err, left, right, top, bottom)
	}
	if !strings.Contains(text, `data-axis="log"`) || !strings.Contains(text, `data-from="1" data-to="100"`) {
		t.Errorf("%.300s", text)
	}
	if strings.Contains(two.String(), "data-axis") || !strings.Contains(spans.String(), `data-axis="spans"`) {
		t.Error("several panels are said to be readable, or spans are not")
	}
}

func TestWithin(t *testing.T) {
	x, nan := []float64{1, 2, 3, 4}, math.NaN()
	p := Panel{X: "t", Y: "s", Lines: []Line{{Name: "l", X: x, Y: []float64{5, 6, nan, 8}}}, Bands: []Band{{Name: "b", X: x, Low: x, High: x}},
		Stack: Stack{X: x, Layers: []Layer{{Name: "p", Values: x}, {Name: "q", Values: x}}}}
	cut := p.Within(2, 3)
	head, rows := cut.Table()
	if got := strings.Join(head, "|") + "/" + strings.Join(rows[0], "|") + "/" + strings.Join(rows[1], "|"); got != "t|p, s|q, s|b, low|b, high|l/2|2|2|2|2|6/3|3|3|3|3|" || len(rows) != 2 {
		t.Errorf("%s", got)
	}
	if len(p.Lines[0].X) != 4 || len(p.Stack.Layers[0].Values) != 4 {
		t.Error("the panel itself was cut")
	}
	if _, rows := p.Within(7, 9).Table(); len(rows) != 0 {
		t.Errorf("%v", rows)
	}
	spans := Panel{X: "t", Y: "task", Time: true, Spans: Spans{Rows: []string{"a", "b", "c"}, All: []Span{{Row: 0, From: 1, To: 3}, {Row: 1, From: 1, To: 2}, {Row: 2, From: 4, To: 9}, {Row: 0, From: 8, To: 9}}}}
	cut = spans.Within(2.5, 5)
	if _, rows := cut.Table(); len(rows) != 2 || strings.Join(rows[0], "|") != "a|1970-01-01 00:00:01.0|2.0|" || strings.Join(rows[1], "|") != "c|1970-01-01 00:00:04.0|5.0|" || cut.Spans.All[1].Row != 1 || *cut.XRange != [2]float64{2.5, 5} {
		t.Errorf("%+v", cut)
	}
	spans.Spans.All[1].To = 1.02
	if _, rows := spans.Table(); strings.Join(rows[1], "|") != "b|1970-01-01 00:00:01.000|0.020|" {
		t.Errorf("spans of less than a second: %v", rows)
	}
	if spans.Spans.All[2].Row != 2 {
		t.Error("the spans themselves were cut")
	}
}

// A path that is written from point to point leads to the places it was drawn with, however long it is.
func TestPathsLeadWhereTheyWereDrawn(t *testing.T) {
	var p vg.Path
	at := func(i int) vg.Point { return vg.Point{X: vg.Length(i) * 0.333, Y: vg.Length(i*i%7) - 3} }
	p.Move(at(0))
	for i := 1; i < 1000; i++ {
		p.Line(at(i))
	}
	p.Close()
	text := pathData(p)
	var x, y float64
	numbers := regexp.MustCompile(`-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)`).FindAllString(text, -1)
	if len(numbers) != 2000 || !strings.HasPrefix(text, "M0 -3l.3 1 ") || !strings.HasSuffix(text, "Z") {
		t.Fatalf("%d numbers in %.60s", len(numbers), text)
	}
	for i := 0; i < len(numbers); i += 2 {
		dx, _ := strconv.ParseFloat(numbers[i], 64)
		dy, _ := strconv.ParseFloat(numbers[i+1], 64)
		x, y = x+dx, y+dy
		if want := at(i / 2); math.Abs(x-want.X.Points()) > 0.051 || math.Abs(y-want.Y.Points()) > 0.051 {
			t.Fatalf("point %d is at %g, %g; drawn at %v", i/2, x, y, want)
		}
	}
}

// A logarithmic axis has numbers on it, however short or long it is.
func TestLogTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{3942, 7229, "4000 5000 6000 7000"}, // Figure 13
		{40, 900, "50 100 200 500"},
		{0.9, 12000, "1 10 100 1000 10000"},
		{0.002, 0.00211, "0.002 0.00205 0.0021"},
	} {
		var labels []string
		for _, tick := range (logTicks{}).Ticks(c.low, c.high) {
			if tick.Label != "" && tick.Value >= c.low && tick.Value <= c.high {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("from %g to %g: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}
