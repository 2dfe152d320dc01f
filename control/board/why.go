package board

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gleaner/cluster"
)

// Waits reports whether a job that has not ended waits.
func (j *Job) Waits() bool { return j.State == Waiting || j.State == Blocked }

// Free is what the primary, the reserve and the running tasks leave.
func (u *Usage) Free() cluster.Resources {
	return u.Size.Sub(u.Counted).Sub(u.Reserve).Sub(u.Held).Max(cluster.Resources{})
}

// Why says why a job did not finish, or what it waits for; "" if its state says it all.
func (s *Status) Why(j *Job, zone *time.Location) string {
	why := j.Reason
	if j.Waits() {
		why = s.WaitsFor(j, zone)
	}
	if why == string(j.State) {
		return ""
	}
	return why
}

// WaitsFor says what the next task of a job needs and what is free. Memory is in
// whole GiB, because it changes all the time.
func (s *Status) WaitsFor(j *Job, zone *time.Location) string {
	switch {
	case j.Paused:
		return fmt.Sprintf("it is paused; 'gleaner resume %s' lets it go on", j.ID)
	case j.State == Blocked:
		return "it comes after " + joined(j.After)
	}
	next := slices.IndexFunc(j.Stages, func(st Stage) bool { return st.Waiting > 0 })
	if next < 0 {
		return ""
	}
	st := &j.Stages[next]
	if s.Drained {
		return "this machine is drained; 'gleaner resume' lets it start tasks again"
	}
	if len(s.Short) > 0 {
		return fmt.Sprintf("%s waits (%s) and is retried", s.Short[0].Of, s.Short[0].Because)
	}
	if len(j.Delayed) > 0 {
		d := j.Delayed[0]
		return fmt.Sprintf("the last run of a task failed (%s); %s starts at %s", d.Reason, d.Name, d.Until.In(zone).Format(time.TimeOnly))
	}
	need, free := st.Request, s.Free()
	cores := func(r cluster.Resources) string { return fmt.Sprintf("%.2f", float64(r.CPU)/float64(cluster.Core)) }
	whole := func(r cluster.Resources) string { return fmt.Sprintf("%d GiB", r.Memory/cluster.GB) }
	short := func(need string, figure func(cluster.Resources) string, unit string) string {
		primary := fmt.Sprintf("the primary uses %s, %s are its reserve, ", figure(s.Counted), figure(s.Reserve))
		if s.Unaware {
			primary = ""
		}
		return fmt.Sprintf("a task of %s needs %s%s, and %s of %s%s are free: %sother tasks hold %s",
			st.Name, need, unit, figure(free), figure(s.Size), unit, primary, figure(s.Held))
	}
	switch {
	case need.CPU > free.CPU:
		return short(cores(need), cores, " cores")
	case need.Memory > free.Memory:
		return short(need.Memory.Text(), whole, "")
	}
	return fmt.Sprintf("there is room for a task of %s now, but the policy does not use it yet: it must stay free for a while", st.Name)
}

// joined lists jobs.
func joined(jobs []cluster.JobID) string {
	names := make([]string, len(jobs))
	for i, id := range jobs {
		names[i] = id.String()
	}
	return strings.Join(names, ", ")
}
