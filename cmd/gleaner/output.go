package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func wantJSON(cmd *cobra.Command) bool {
	yes, _ := cmd.Flags().GetBool("json")
	return yes
}

// printJSON writes v, indented, with a newline at the end.
func printJSON(cmd *cobra.Command, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := cmd.OutOrStdout().Write(buf.Bytes())
	return err
}

// counted writes a number of things: 1 tenant, 2 tenants.
func counted[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// clock writes a time for people.
func clock(t time.Time) string { return t.UTC().Format(time.DateTime + " UTC") }

// A table is lined up by its columns' widest cells. A column whose header
// starts with '>' is flushed right.
type table struct {
	header []string
	rows   [][]string
}

func newTable(header ...string) *table { return &table{header: header} }

// row adds a row. Cells may have what other users wrote: what steers a terminal is shown, and not sent.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = shownControls(cell)
	}
	t.rows = append(t.rows, cells)
}

// shownControls has control characters as they are written in Go.
func shownControls(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func (t *table) print(w io.Writer) error {
	header := make([]string, len(t.header))
	right := make([]bool, len(t.header))
	width := make([]int, len(t.header))
	for i, h := range t.header {
		header[i], right[i] = strings.CutPrefix(h, ">")
		width[i] = utf8.RuneCountInString(header[i])
	}
	for _, row := range t.rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range append([][]string{header}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if right[i] {
				cell, pad = pad+cell, ""
			}
			if i > 0 {
				line.WriteString("  ")
			}
			line.WriteString(cell + pad)
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printMost prints a table from which some rows were left out.
func printMost(out io.Writer, t *table, more int) error {
	if err := t.print(out); err != nil || more <= 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "… and %d more, see --json\n", more)
	return err
}

// sparkline draws values between 0 and top as a row of width small bars; a
// stretch without values stays blank.
func sparkline(values []float32, width int, top float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var out strings.Builder
	for i := range width {
		from, to := i*len(values)/width, max((i+1)*len(values)/width, i*len(values)/width+1)
		sum, n := 0.0, 0
		for _, v := range values[from:min(to, len(values))] {
			if !math.IsNaN(float64(v)) {
				sum, n = sum+float64(v), n+1
			}
		}
		if n == 0 {
			out.WriteByte(' ')
			continue
		}
		level := 0
		if top > 0 {
			level = int(sum / float64(n) / top * float64(len(bars)))
		}
		out.WriteRune(bars[min(max(level, 0), len(bars)-1)])
	}
	return out.String()
}

// A progress shows the progress of long work, once it has taken two seconds and only
// if stderr is a terminal. A total of 0 means that the end is unknown.
type progress struct {
	bar   *progressbar.ProgressBar
	start time.Time
	what  string
	total int64
	done  int64
	shown bool
	lock  sync.Mutex // of set
}

func newProgress(cmd *cobra.Command, what string, total int64) *progress {
	p := &progress{start: time.Now(), what: what, total: total}
	if f, ok := cmd.ErrOrStderr().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.shown = true
	}
	return p
}

func (p *progress) add(n int64) {
	p.done += n
	if !p.shown || time.Since(p.start) < 2*time.Second {
		return
	}
	if p.bar == nil {
		total := p.total
		if total == 0 {
			total = -1
		}
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetDescription(p.what), progressbar.OptionSetWriter(os.Stderr),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	}
	_ = p.bar.Set64(p.done)
}

// set sets how much is done, and the total, which may be known only now. It may be
// called from several goroutines.
func (p *progress) set(done, of int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.total = int64(of)
	p.add(int64(done) - p.done)
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
