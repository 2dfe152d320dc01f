package local

import (
	"testing"
	"time"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/control/worldtest"
)

func TestWorld(t *testing.T) {
	worldtest.Run(t, func(t *testing.T, scene worldtest.Scene) control.World {
		w, err := Open(Options{Dir: t.TempDir(), Server: "here", Every: 50 * time.Millisecond, Plain: true, Equal: true,
			Sample: func() (Sample, error) { return Sample{Primary: scene.Primary()}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			w.Stop("the test is over")
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		commands := map[string][]string{"short": {"true"}, "long": {"sleep", "1000"}}
		for _, j := range scene.Jobs {
			spec := cluster.Job{Name: j.Name}
			for _, st := range j.Stages {
				st.Command = commands[st.Name]
				spec.Stages = append(spec.Stages, st)
			}
			if id, err := w.Submit(&spec); err != nil || id != j.ID {
				t.Fatalf("%s is %s: %v", j.ID, id, err)
			}
		}
		return w
	})
}
