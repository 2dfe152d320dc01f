package cluster_test

import (
	"encoding/json"
	"testing"

	"gleaner/cluster"
)

func TestEventsOfStorageThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		`{"event":"data server joined","on":"s1"}`:                                      "the event lacks its data server",
		`{"event":"disk joined","on":"s1"}`:                                             "the event lacks its disk",
		`{"event":"disk left","on":"s1","disk":{"tier":"ssd"}}`:                         "the event lacks its disk",
		`{"event":"disk joined","on":"s1","disk":{"id":"d1","quota":-1}}`:               "a disk's size is below zero",
		`{"event":"disk joined","on":"s1","disk":{"id":"d1","free":-1}}`:                "a disk's size is below zero",
		`{"event":"data reported","data":[{"on":"s1","disks":[{"id":"d","free":-1}]}]}`: "a disk has a negative free space or number of errors",
	} {
		var ev cluster.Event
		if err := json.Unmarshal([]byte(text), &ev); err != nil {
			t.Fatal(err)
		}
		if err := ev.Check(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
