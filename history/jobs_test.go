package history

import (
	"reflect"
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/kv/mem"
)

// Of each job the newest runs are kept, and classes replace those from before; both outlive the store that wrote them.
func TestJobRunsAndClassesAreKept(t *testing.T) {
	under := mem.New()
	s, err := Open(t.Context(), under, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for i := range keptJobRuns + 5 {
		if err := s.AddJobRun(t.Context(), JobRun{Name: "sort", Ended: from.Add(time.Duration(i) * time.Hour), Took: time.Duration(i), Work: 2}); err != nil {
			t.Fatal(err)
		}
	}
	other := JobRun{Name: "count", Ended: from.Add(6*time.Hour + time.Second), Took: time.Minute, Work: 1}
	if err := s.AddJobRun(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := s.AddJobRun(t.Context(), JobRun{Ended: from}); err == nil {
		t.Error("a run of a job without a name is kept")
	}
	if c, err := s.Classes(t.Context()); err != nil || !c.At.IsZero() {
		t.Errorf("%v, %v", c, err)
	}
	want := Classes{from, []cluster.Class{{ID: "periodic-0", Pattern: cluster.Periodic, Tenants: []cluster.TenantID{"web/front"}, Servers: 3, Mean: 0.2, Peak: 0.5, Period: 24 * time.Hour}}}
	for _, c := range []Classes{{from.Add(-time.Hour), nil}, want} {
		if err := s.SetClasses(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	s, err = Open(t.Context(), under, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.JobRuns(t.Context())
	if err != nil || len(runs) != keptJobRuns+1 || runs[0].Took != 5 || runs[2] != other {
		t.Errorf("%v, %v", runs, err)
	}
	if got, err := s.Classes(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
