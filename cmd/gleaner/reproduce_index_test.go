package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/chart"
	"gleaner/lab"
)

// The charts of the index are light or dark as the page is: they have its classes and no colours or ground of their own. Figures in its
// tables stand below each other.
func TestTheIndexHasThePagesColours(t *testing.T) {
	dir := t.TempDir()
	figure := chart.Figure{Name: "f", Panels: []chart.Panel{{Title: "Job <times>", X: "hour", Y: "s", Lines: []chart.Line{{Name: "ours", X: []float64{1, 2, 3}, Y: []float64{1, 2, math.NaN()}}}}}}
	table := lab.Table{Name: "t", Title: "Times", Columns: []string{"policy", "ours", "paper"}, Rows: [][]string{{"history", "12.5", "the lowest"}}}
	one := reproduced{Name: "fig13", Tables: tablesOf([]lab.Table{table}), figures: []chart.Figure{figure}}
	if err := one.save(dir, kept{Tables: []lab.Table{table}, Figures: []chart.Figure{figure}}); err != nil {
		t.Fatal(err)
	}
	if err := saveIndex(dir, []reproduced{one}); err != nil {
		t.Fatal(err)
	}
	html := readText(t, filepath.Join(dir, "index.html"))
	_, body, _ := strings.Cut(html, "</style>")
	for _, want := range []string{`<figcaption>Job &lt;times&gt;</figcaption>`, `class="l0"`, `<th scope="col" class="n">ours</th><th scope="col">paper</th>`, `<td class="n">12.5</td><td>the lowest</td>`, `href="fig13/f.svg"`, `href="fig13/t.csv"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the index has no %s", want)
		}
	}
	for _, never := range []string{"<img", "style=", `fill="`, `stroke="`, "#ffffff"} {
		if strings.Contains(body, never) {
			t.Errorf("the index has %s", never)
		}
	}
}
