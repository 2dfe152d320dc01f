package dilation

import (
	"math"
	"slices"
	"time"
)

// A Job runs on a machine from Start on; alone it would take Work.
type Job struct {
	Load  Vector
	Start time.Duration
	Work  time.Duration
}

// Finish returns the time at which each job is done if all share m. Between
// two moments at which a job starts or ends, the set of running jobs is fixed
// and each proceeds at 1/λ of its speed (§4.2, for any number of jobs).
func (m Machine) Finish(jobs []Job) []time.Duration {
	left := make([]float64, len(jobs))
	for j, job := range jobs {
		left[j] = float64(job.Work)
	}
	finish := make([]time.Duration, len(jobs))
	waiting := byStart(jobs)
	var running []int
	now := 0.0
	for len(waiting)+len(running) > 0 {
		if len(running) == 0 {
			now = max(now, float64(jobs[waiting[0]].Start))
		}
		for len(waiting) > 0 && float64(jobs[waiting[0]].Start) <= now {
			running, waiting = append(running, waiting[0]), waiting[1:]
		}
		until := math.Inf(1)
		if len(waiting) > 0 {
			until = float64(jobs[waiting[0]].Start)
		}
		now, running = m.advance(jobs, running, left, finish, now, until)
	}
	return finish
}

// byStart returns the jobs' indices in the order they start.
func byStart(jobs []Job) []int {
	order := make([]int, len(jobs))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(jobs[a].Start - jobs[b].Start) })
	return order
}

// advance runs the given jobs until the first of them ends, or until the time
// given; it returns the time then and the jobs that still run.
func (m Machine) advance(jobs []Job, running []int, left []float64, finish []time.Duration, now, until float64) (float64, []int) {
	total := make(Vector, len(m))
	for _, j := range running {
		total.Add(jobs[j].Load)
	}
	first := until
	factor := make([]float64, len(running))
	for i, j := range running {
		factor[i] = m.Factor(jobs[j].Load, total)
		first = min(first, now+left[j]*factor[i])
	}
	var still []int
	for i, j := range running {
		end := now + left[j]*factor[i]
		if end <= first {
			finish[j] = time.Duration(math.Round(end))
			continue
		}
		left[j] -= (first - now) / factor[i]
		still = append(still, j)
	}
	return first, still
}

// Makespan is the time from the first start to the last finish.
func Makespan(jobs []Job, finish []time.Duration) time.Duration {
	if len(jobs) == 0 {
		return 0
	}
	first, last := jobs[0].Start, finish[0]
	for j := range jobs {
		first, last = min(first, jobs[j].Start), max(last, finish[j])
	}
	return last - first
}

// LinearSum is the makespan that a model of one resource predicts for jobs that
// leave no gap: the sum of their times alone (Theorem 1).
func LinearSum(jobs []Job) time.Duration {
	var sum time.Duration
	for _, job := range jobs {
		sum += job.Work
	}
	return sum
}
