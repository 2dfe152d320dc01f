package colocation

import (
	"fmt"
	"math"
	"slices"

	"gleaner/chart"
	"gleaner/lab"
	"gleaner/lab/search"
)

// What the paper reports (OSDI'16 §6.3).
var (
	paperTail = map[string]string{
		"alone":   "369 to 406 ms; 33% used",
		"stock":   "hurt significantly",
		"primary": "significantly lower than stock",
		"history": "within 44 ms of alone; 54% used",
	}
	paperTimes = map[string]string{"stock": "the lowest", "primary": "1181 s", "history": "938 s"}
	paperDisk  = map[string]string{"alone": "", "stock": "hurt significantly", "history": "within 47 ms of alone"}
)

func fig10(m *measurement) (lab.Table, chart.Figure) {
	t := lab.Table{Name: "fig10", Title: "Figure 10: p99 of a search service beside harvested jobs, on this machine", Columns: append(tailColumns(), "tasks killed", "paper")}
	for _, r := range m.results {
		t.Add(append(m.tail(r), r.count(func(o outcome) int { return o.killed }), paperTail[r.name])...)
	}
	t.Notes = append(m.notes(), "Jobs are queries like TPC-DS in small: stages of processes that go through tables, join and rank; they want "+
		percent(demand)+" of the machine. A task may use idle time beyond what it was given.")
	return t, m.picture("fig10")
}

func fig11(m *measurement) (lab.Table, chart.Figure) {
	t := lab.Table{Name: "fig11", Title: "Figure 11: run times of the jobs beside it", Columns: []string{"setting", "jobs", "finished", "mean s"}}
	for _, s := range queries {
		t.Columns = append(t.Columns, s.name+" s")
	}
	t.Columns = append(t.Columns, "tasks started", "killed", "paper, mean")
	bars := chart.Bars{}
	for _, s := range queries {
		bars.Groups = append(bars.Groups, s.name)
	}
	for _, r := range m.results {
		if !r.harvests {
			continue
		}
		finished, all := r.times("")
		row := []any{r.name, len(all), finished, seconds(average(all))}
		var heights []float64
		for _, s := range queries {
			_, took := r.times(s.name)
			row, heights = append(row, seconds(average(took))), append(heights, average(took))
		}
		bars.Names, bars.Values = append(bars.Names, r.name), append(bars.Values, heights)
		t.Add(append(row, r.count(func(o outcome) int { return o.started }), r.count(func(o outcome) int { return o.killed }), paperTimes[r.name])...)
	}
	t.Notes = []string{fmt.Sprintf("Measured together with Figure 10. A task computes for %v on a core of its own. A job that is not finished when the day ends counts with the time it has taken so far.", m.size.task()),
		"In the paper, history shortens jobs because it sends them to servers where they are not killed. On one machine there is no choice: what is left of history is that it waits until room has stayed free, which saves kills and costs time."}
	return t, chart.Figure{Name: "fig11", Panels: []chart.Panel{{Title: "Run times of batch jobs", X: "job", Y: "seconds", Bars: bars}}}
}

func fig12(m *measurement) (lab.Table, chart.Figure) {
	t := lab.Table{Name: "fig12", Title: "Figure 12, on one machine: p99 of a search service beside jobs that harvest the disk", Columns: append(tailColumns(), "MB/s moved", "tasks killed", "paper")}
	for _, r := range m.results {
		moved := float64(r.count(func(o outcome) int { return o.moved })) / (m.size.length.Seconds() * float64(max(len(r.days), 1)))
		t.Add(append(m.tail(r), fmt.Sprintf("%.0f", moved), r.count(func(o outcome) int { return o.killed }), paperDisk[r.name])...)
	}
	t.Notes = append(m.notes(), "What this is: jobs that write tables, sync them to the disk, read them back past the page cache and check them, on the service's own disk.",
		"What it is not: there is one server, so nothing is said of replicas and of accesses that a busy server denies; fig16 simulates those. The service's index stays in memory, as Lucene's would.")
	return t, m.picture("fig12")
}

// within is how much a smaller reserve may raise a primary's tail latency.
const within = 1.10

// reserves compares what is kept free, round by round: a round plays all
// settings within minutes, between two days alone.
func reserves(m *measurement) (lab.Table, chart.Figure) {
	t := lab.Table{Name: "reserve", Title: "What it costs a search service to keep less free for it, on this machine", Columns: []string{
		"kept free", "p99 ms: median", "over alone: median", "it lies between", "all rounds: p99", "over alone", "machine used", "harvested", "tasks started", "killed"}}
	panel := chart.Panel{Title: "p99 over alone", X: "round", Y: "ratio"}
	alone, whole := m.alone(), m.record()
	smallest := ""
	for _, r := range m.results[:max(len(m.results)-1, 0)] {
		p99 := r.tails()
		over := ratios(p99, alone)
		low, high := medianBetween(over)
		all := r.record().Percentile(0.99) / whole.Percentile(0.99)
		t.Add(r.name, millis(median(p99)), more(median(over)), more(low)+" to "+more(high), millis(r.record().Percentile(0.99)), more(all),
			percent(r.share(outcome.used)), percent(r.share(func(o outcome) float64 { return o.harvested })),
			r.count(func(o outcome) int { return o.started }), r.count(func(o outcome) int { return o.killed }))
		if r.harvests && median(over) <= within && all <= within {
			smallest = r.name
		}
		panel.Lines = append(panel.Lines, chart.Line{Name: r.name, X: counting(len(over)), Y: over})
	}
	t.Notes = m.reserveNotes(smallest)
	return t, chart.Figure{Name: "reserve", Panels: []chart.Panel{panel}}
}

func (m *measurement) reserveNotes(smallest string) []string {
	if len(m.results) == 0 {
		return nil
	}
	first, last := m.results[0], m.results[len(m.results)-1]
	again := ratios(first.tails(), last.tails())
	low, high := medianBetween(again)
	choice := "None of them keeps p99 within " + more(within) + " of alone."
	switch {
	case m.others() > disturbing:
		choice = "Nothing can be chosen: others kept the machine busy."
	case !m.isolated():
		choice = "There is no choice: the kernel does not isolate tasks here (cpu.idle), and 'gleaner up' keeps the paper's reserve."
	case smallest != "":
		choice = fmt.Sprintf("The smallest that keeps p99 within %s of alone, in the median over rounds and in all rounds together: %s.", more(within), smallest)
	}
	return []string{choice,
		fmt.Sprintf("%d rounds. Each plays the same day of %v alone, beside jobs in each setting, and alone again, every other round backwards. p99 is of a day (%.0f queries), counted from when each query was to be sent, and is compared with the two days alone of its round: with their geometric mean.",
			m.size.rounds, m.size.length, float64(len(first.record()))/float64(max(len(first.days), 1))),
		fmt.Sprintf("Of two days alone in one round, one was over the other by %s (median, between %s and %s): differences below that say nothing.", more(median(again)), more(low), more(high)),
		"\"It lies between\": the median of many more rounds, with a confidence of 90% from five rounds on.",
		"Jobs want " + percent(plenty) + " of the machine. " + m.machine()}
}

// alone is the 99th percentile of the primary alone, in each round.
func (m *measurement) alone() []float64 {
	if len(m.results) == 0 {
		return nil
	}
	before, after := m.results[0].tails(), m.results[len(m.results)-1].tails()
	both := make([]float64, len(before))
	for i := range both {
		both[i] = math.Sqrt(before[i] * after[i])
	}
	return both
}

// record is all queries of the days alone.
func (m *measurement) record() (all search.Record) {
	for _, r := range m.results {
		if !r.harvests {
			all = append(all, r.record()...)
		}
	}
	return all
}

// tails is the 99th percentile of each day.
func (r result) tails() []float64 {
	var all []float64
	for _, o := range r.days {
		all = append(all, o.queries.Percentile(0.99))
	}
	return all
}

func counting(n int) []float64 {
	var all []float64
	for i := range n {
		all = append(all, float64(i+1))
	}
	return all
}

func tailColumns() []string {
	return []string{"setting", "p99 ms: median", "p99: mean", "p99: max", "p99: day", "over alone: median", "over alone: mean", "over alone: 10% to 90%", "machine used", "harvested"}
}

// tail is a row about the primary's latency.
func (m *measurement) tail(r result) []any {
	p99 := m.curve(r.record())
	over := ratios(p99, m.curve(m.results[0].record()))
	return []any{r.name, millis(median(p99)), millis(average(p99)), millis(slices.Max(p99)), millis(r.record().Percentile(0.99)),
		more(median(over)), more(average(over)), more(quantile(over, 0.1)) + " to " + more(quantile(over, 0.9)),
		percent(r.share(outcome.used)), percent(r.share(func(o outcome) float64 { return o.harvested }))}
}

// curve is the 99th percentile of each window, in ms.
func (m *measurement) curve(all search.Record) []float64 {
	var curve []float64
	for _, w := range all.Windows(m.size.windows, m.size.length) {
		curve = append(curve, w.Percentile(0.99))
	}
	return curve
}

func (m *measurement) notes() []string {
	if len(m.results) == 0 {
		return nil
	}
	first := m.results[0]
	minutes := 24 * 60 / m.size.windows
	notes := []string{fmt.Sprintf("A day of a periodic tenant of DC-9, scaled to a mean of %s, is played in %v, %d times in each setting; p99 is of %d minutes of that day at a time (%.0f queries on average), counted from when each query was to be sent. \"Over alone\" compares each with the same minutes alone.",
		percent(mean), m.size.length, m.size.rounds, minutes, float64(len(first.record()))/float64(m.size.windows))}
	notes = append(notes, m.machine())
	if len(first.days) > 1 {
		over := ratios(m.curve(first.days[1].queries), m.curve(first.days[0].queries))
		notes = append(notes, fmt.Sprintf("How far this can be trusted: alone, the second day was over the first by %s (median), %s (mean), %s to %s (10%% to 90%%).",
			more(median(over)), more(average(over)), more(quantile(over, 0.1)), more(quantile(over, 0.9))))
	}
	return notes
}

// machine describes the machine, and how much others used it.
func (m *measurement) machine() string {
	machine := fmt.Sprintf("%d cores, shared by the service, its clients and the jobs.", m.cores)
	if !m.confined() {
		machine += " No control groups: tasks ran as process groups at the lowest priority."
	}
	machine += fmt.Sprintf(" Others, and the machine's host, used up to %s of it meanwhile; days played again for that: %d.", percent(m.others()), m.again)
	if m.others() > disturbing {
		machine += " That is too much for the latencies to mean anything."
	}
	if failed := m.failed(); failed > 0 {
		machine += fmt.Sprintf(" %d queries failed.", failed)
	}
	return machine
}

func (m *measurement) picture(name string) chart.Figure {
	panel := chart.Panel{Title: "p99 of the search service", X: "hour of the day", Y: "ms"}
	for _, r := range m.results {
		line := chart.Line{Name: r.name, Y: m.curve(r.record())}
		for i := range line.Y {
			line.X = append(line.X, 24*(float64(i)+0.5)/float64(m.size.windows))
		}
		panel.Lines = append(panel.Lines, line)
	}
	return chart.Figure{Name: name, Panels: []chart.Panel{panel}}
}

func (m *measurement) confined() bool { return m.always(func(o outcome) bool { return o.confined }) }
func (m *measurement) isolated() bool { return m.always(func(o outcome) bool { return o.isolated }) }

// always reports whether so holds for all days.
func (m *measurement) always(so func(outcome) bool) bool {
	return !slices.ContainsFunc(m.results, func(r result) bool {
		return slices.ContainsFunc(r.days, func(o outcome) bool { return !so(o) })
	})
}

// others is the most that other processes used on one day.
func (m *measurement) others() float64 {
	most := 0.0
	for _, r := range m.results {
		for _, o := range r.days {
			most = max(most, o.others())
		}
	}
	return most
}

func (m *measurement) failed() int {
	n := 0
	for _, r := range m.results {
		n += r.record().Failed()
	}
	return n
}

// record is the queries of all days.
func (r result) record() search.Record {
	var all search.Record
	for _, o := range r.days {
		all = append(all, o.queries...)
	}
	return all
}

func (r result) count(of func(outcome) int) int {
	n := 0
	for _, o := range r.days {
		n += of(o)
	}
	return n
}

// share is the average of the days.
func (r result) share(of func(outcome) float64) float64 {
	sum := 0.0
	for _, o := range r.days {
		sum += of(o) / float64(len(r.days))
	}
	return sum
}

// times are the run times of jobs of that name, or of all, in seconds.
func (r result) times(name string) (finished int, all []float64) {
	for _, o := range r.days {
		for _, j := range o.jobs {
			if name != "" && j.name != name {
				continue
			}
			if all = append(all, j.took.Seconds()); j.finished {
				finished++
			}
		}
	}
	return finished, all
}

// ratios compares two curves where both have values.
func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range a {
		if r := a[i] / b[i]; !math.IsNaN(r) {
			all = append(all, r)
		}
	}
	return all
}

func average(all []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range all {
		if !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(n)
}

func median(all []float64) float64 { return quantile(all, 0.5) }

// medianBetween is the confidence interval of the median of the distribution that
// all were drawn from, at 90% if there are five or more: the median is below the
// k-th smallest only if fewer than k draws of a fair coin are heads.
func medianBetween(all []float64) (low, high float64) {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	const either = 0.05 // probability of a miss on either side
	k, coin, missed := 0, math.Exp2(-float64(n)), 0.0
	for missed+coin <= either {
		missed += coin
		coin *= float64(n-k) / float64(k+1)
		k++
	}
	k = max(k-1, 0)
	return all[k], all[n-1-k]
}

// quantile is the value that a share of all does not exceed.
func quantile(all []float64, share float64) float64 {
	all = slices.DeleteFunc(slices.Sorted(slices.Values(all)), math.IsNaN)
	if len(all) == 0 {
		return math.NaN()
	}
	return all[int(math.Round(share*float64(len(all)-1)))]
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
func more(ratio float64) string    { return fmt.Sprintf("%+.1f%%", 100*(ratio-1)) }
func millis(ms float64) string     { return fmt.Sprintf("%.2f", ms) }
func seconds(s float64) string     { return fmt.Sprintf("%.2f", s) }
