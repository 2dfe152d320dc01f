package v1alpha1

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gleaner/cluster"
	"gleaner/control/jobfile"
	"gleaner/input"
)

// Every good job file is the same job as a HarvestJob, also after it was written and read,
// or is refused because a pod cannot have what it asks for.
func TestJobFilesAreHarvestJobs(t *testing.T) {
	converted := 0
	try := func(name, text string) {
		job, err := jobfile.Read(name, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		h, err := FromJob(job, "busybox")
		if err != nil {
			if !input.Is(err) {
				t.Errorf("%s: not told as the user's mistake: %v", name, err)
			}
			return
		}
		written, err := yaml.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var read HarvestJob
		if err := yaml.UnmarshalStrict(written, &read); err != nil {
			t.Fatal(err)
		}
		if got := read.Job(); !sameStages(got, job) || got.Name != job.Name || got.Time != job.Time {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, job)
		}
		converted++
	}
	datadriven.RunTest(t, "../../../control/jobfile/testdata/read/good", func(t *testing.T, d *datadriven.TestData) string {
		try(d.Pos, d.Input)
		return d.Expected
	})
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		try(name, string(text))
	}
	if converted < 3 {
		t.Errorf("only %d job files were converted", converted)
	}
}

// sameStages compares stages in any order; a HarvestJob lists them by waves.
func sameStages(a, b *cluster.Job) bool {
	of := func(j *cluster.Job) map[string]cluster.Stage {
		all := map[string]cluster.Stage{}
		for _, s := range j.Stages {
			all[s.Name] = s
		}
		return all
	}
	return len(a.Stages) == len(b.Stages) && reflect.DeepEqual(of(a), of(b))
}

func TestWhatPodsCannotHave(t *testing.T) {
	stage := cluster.Stage{Name: "a", Tasks: 1, Command: []string{"x"}, Request: cluster.Resources{CPU: 1, Memory: jobfile.MinMemory}}
	for want, spoil := range map[string]func(*cluster.Stage){
		"lower case": func(s *cluster.Stage) { s.Name = "Map" },
		"at most 40": func(s *cluster.Stage) { s.Name = strings.Repeat("a", 41) },
		"kubelet":    func(s *cluster.Stage) { s.Processes = 10 },
		"10000":      func(s *cluster.Stage) { s.Each = make([]string, 10001) },
	} {
		s := stage
		spoil(&s)
		if _, err := FromJob(&cluster.Job{Name: "j", Stages: []cluster.Stage{s}}, "i"); err == nil || !input.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What is written to a status is what the next controller reads from it.
func TestStatusIsReadBack(t *testing.T) {
	h := &HarvestJob{ObjectMeta: metav1.ObjectMeta{Name: "count"}, Spec: HarvestJobSpec{Stages: []Stage{{Name: "map", Tasks: 9}, {Name: "reduce"}}}}
	h.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	h.Status.Number = 7
	past := cluster.PastJob{Job: h.Job(), Submitted: time.Unix(1000, 0), Account: cluster.Account{Started: time.Unix(1001, 5000), Work: 12.345, Kills: 3},
		Stages: []cluster.PastStage{{Name: "map", Finished: cluster.Indices{{First: 0, Last: 5}, {First: 7, Last: 7}}, Failures: 2}}}
	runs := []cluster.PastRun{{Task: cluster.TaskID{Job: 7, Stage: "map", Index: 6, Attempt: 1}, On: "n1", State: cluster.Running}}
	h.Status.SetPast(&past, 1)
	if s := h.Status; s.State != Running || s.Tasks != 10 || s.Finished != 7 || s.Failures != 2 || s.Stages[0].Finished != "0-5,7" {
		t.Errorf("%+v", s)
	}
	past.Runs = runs
	if got, err := h.Past(runs); err != nil || !reflect.DeepEqual(got, past) {
		t.Errorf("%v:\n got %+v\nwant %+v", err, got, past)
	}

	past.Ended, past.Reason, past.Runs = time.Unix(1100, 0), "it failed", nil
	h.Status.SetPast(&past, 0)
	if got, err := h.Past(runs); err != nil || !reflect.DeepEqual(got, past) || h.Status.State != Failed {
		t.Errorf("%v: %s\n got %+v\nwant %+v", err, h.Status.State, got, past)
	}
	h.Status.Stages[0].Finished = "5-3"
	if _, err := h.Past(nil); err == nil {
		t.Error("a status that makes no sense was read")
	}
}

// Whatever is read is written the same way.
func FuzzIndices(f *testing.F) {
	for _, text := range []string{"", "0", "0-5,7", "3-1", "1,2", "1-2,3", "999999", "1000000", "-", "1,,2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := parseIndices(text)
		if err != nil {
			return
		}
		again, err := parseIndices(formatIndices(x))
		if err != nil || !reflect.DeepEqual(again, x) {
			t.Fatalf("%q: %v, then %v (%v)", text, x, again, err)
		}
	})
}
