package web

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gleaner/cluster"
	"gleaner/control/board"
	"gleaner/fabric"
)

// Metrics has what GET /metrics shows, for Prometheus; docs/metrics.md describes it.
func (a *API) Metrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics{a}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// metricsPath is where Prometheus looks.
const metricsPath = "/metrics"

func (a *API) metrics() http.Handler {
	return promhttp.HandlerFor(a.Metrics(), promhttp.HandlerOpts{})
}

// metrics reads the board when it is asked, so that nothing is counted twice.
type metrics struct{ *API }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gleaner_"+name, help, labels, nil)
}

// amounts are the shares of the machine, each with two metrics.
var amounts = []struct {
	cpu, memory *prometheus.Desc
	of          func(Status) cluster.Resources
}{
	{describe("machine_cpu_cores", "Cores of the machine."), describe("machine_memory_bytes", "Memory of the machine."),
		func(s Status) cluster.Resources { return s.Size }},
	{describe("primary_cpu_cores", "Cores that the primary used in the last second."), describe("primary_memory_bytes", "Memory that the primary uses."),
		func(s Status) cluster.Resources { return s.Primary }},
	{describe("reserve_cpu_cores", "Cores kept free for the primary."), describe("reserve_memory_bytes", "Memory kept free for the primary."),
		func(s Status) cluster.Resources { return s.Reserve }},
	{describe("requested_cpu_cores", "Cores that running tasks have requested."), describe("requested_memory_bytes", "Memory that running tasks have requested."),
		func(s Status) cluster.Resources { return s.Held }},
	{describe("harvested_cpu_cores", "Cores that tasks used in the last second."), describe("harvested_memory_bytes", "Memory that tasks use."),
		func(s Status) cluster.Resources { return s.Harvested }},
}

var (
	buildInfo     = describe("build_info", "Always 1; the label has the version.", "version")
	lastSample    = describe("last_sample_timestamp_seconds", "When the use of the machine was last read.")
	tasksNow      = describe("tasks", "Tasks that have not ended, by state.", "state")
	jobsNow       = describe("jobs", "Jobs that are kept, by state.", "state")
	partsWaiting  = describe("waiting_parts", "Parts of gleaner that wait for files, memory, processes or disk.")
	tasksStarted  = describe("tasks_started_total", "Runs of tasks that were started or, at the start of gleaner, found running.")
	tasksEnded    = describe("tasks_ended_total", "Runs of tasks that have ended, by outcome.", "outcome")
	jobsSubmitted = describe("jobs_submitted_total", "Jobs that were submitted.")
	jobsEnded     = describe("jobs_ended_total", "Jobs that have ended, by state.", "state")
)

var (
	storageUp    = describe("storage_up", "1 if the disks are open and their upkeep can be asked, else 0.")
	disksNow     = describe("disks", "Disks that servers lend, by state.", "state")
	diskQuota    = describe("disk_quota_bytes", "Bytes that may be used of a disk.", "server", "disk", "tier")
	diskFree     = describe("disk_free_bytes", "Bytes of the quota that are free.", "server", "disk", "tier")
	upkeepPaused = describe("upkeep_paused", "1 if upkeep is paused, else 0.")
	upkeepNow    = describe("upkeep_tasks", "Tasks of upkeep that have not ended, by kind and state.", "task", "state")
	upkeepEnded  = describe("upkeep_tasks_ended_total", "Tasks of upkeep that have ended, by kind and outcome.", "task", "outcome")
	upkeepLeft   = describe("upkeep_seconds_to_finish", "When the tasks of a kind that wait will be done, at the pace of late; absent if not known.", "task")
	findings     = describe("findings", "Records of the last scan of all maps that lead nowhere, which must never be.")
	checkedAt    = describe("check_timestamp_seconds", "When all was last checked; 0 if it was not.")
	checkFound   = describe("check_found", "What the last check of all found.", "what")
	scrubPasses  = describe("scrub_passes_total", "How often all that is stored was read.")
	scrubCorrupt = describe("scrub_corrupt_total", "Slices that were found to be rotten when all was read.")
)

// A sender sends a metric with the values of its labels.
type sender func(d *prometheus.Desc, value float64, labels ...string)

// storage sends the metrics of the disks.
func (a *API) storage(gauge, count sender) {
	var disks Storage
	if a.Storage != nil {
		disks = a.Storage()
	}
	if disks == nil {
		gauge(storageUp, 0)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storagePatience)
	defer cancel()
	lent, err := disks.Lent(ctx)
	curation, more := disks.Curation(ctx)
	if err != nil || more != nil {
		gauge(storageUp, 0)
		return
	}
	gauge(storageUp, 1)
	states := map[string]int{"up": 0, "busy": 0, "away": 0, "retiring": 0, "retired": 0}
	for _, d := range lent {
		states[d.State]++
		gauge(diskQuota, float64(d.Quota), d.Server, d.Disk, d.Tier)
		gauge(diskFree, float64(d.Free), d.Server, d.Disk, d.Tier)
	}
	for state, n := range states {
		gauge(disksNow, float64(n), state)
	}
	upkeep(curation, gauge, count)
}

// storagePatience is how long a scrape waits for the disks.
const storagePatience = 5 * time.Second

// upkeep sends the metrics of upkeep.
func upkeep(c fabric.Curation, gauge, count sender) {
	paused := 0.0
	if c.Paused != "" {
		paused = 1
	}
	gauge(upkeepPaused, paused)
	for _, b := range c.Tasks {
		gauge(upkeepNow, float64(b.Waiting), b.Kind, "waiting")
		gauge(upkeepNow, float64(b.UnderWay), b.Kind, "under_way")
		count(upkeepEnded, float64(b.Done), b.Kind, "done")
		count(upkeepEnded, float64(b.Refused), b.Kind, "refused")
		count(upkeepEnded, float64(b.Failed), b.Kind, "failed")
		if b.Seconds >= 0 {
			gauge(upkeepLeft, b.Seconds, b.Kind)
		}
	}
	gauge(findings, float64(len(c.Findings)))
	at := 0.0
	if !c.Checked.At.IsZero() {
		at = float64(c.Checked.At.Unix())
	}
	gauge(checkedAt, at)
	for what, n := range map[string]int{"missing": c.Checked.Missing, "corrupt": c.Checked.Corrupt, "orphans": c.Checked.Orphans, "errors": c.Checked.Errors} {
		gauge(checkFound, float64(n), what)
	}
	count(scrubPasses, float64(c.Scrubbed.Passes))
	count(scrubCorrupt, float64(c.Scrubbed.Corrupt))
}

// Describe sends nothing: which metrics there are does not depend on the machine.
func (m metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics as they are now.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		send(prometheus.GaugeValue, d, value, labels...)
	}
	count := func(d *prometheus.Desc, value float64, labels ...string) {
		send(prometheus.CounterValue, d, value, labels...)
	}
	s, total := Status{m.Board.Status(), m.Harvested()}, m.Board.Totals()
	gauge(buildInfo, 1, m.Version)
	gauge(lastSample, float64(s.At.UnixMilli())/1000)
	for _, a := range amounts {
		gauge(a.cpu, float64(a.of(s).CPU)/float64(cluster.Core))
		gauge(a.memory, float64(a.of(s).Memory))
	}
	for state, n := range map[board.State]int{board.Running: s.Running, board.Waiting: s.Waiting, board.Blocked: s.Blocked} {
		gauge(tasksNow, float64(n), string(state))
	}
	for _, state := range board.States {
		gauge(jobsNow, float64(total.Jobs[state]), string(state))
	}
	gauge(partsWaiting, float64(len(s.Short)))
	count(tasksStarted, float64(total.TasksStarted))
	for outcome, n := range map[string]int{"finished": total.TasksFinished, "failed": total.TasksFailed, "killed": total.TasksKilled, "dropped": total.TasksDropped, "not_started": total.TasksNotStarted} {
		count(tasksEnded, float64(n), outcome)
	}
	count(jobsSubmitted, float64(total.JobsSubmitted))
	for _, state := range []board.State{board.Finished, board.Failed, board.Cancelled} {
		count(jobsEnded, float64(total.JobsEnded[state]), string(state))
	}
	m.storage(gauge, count)
}
