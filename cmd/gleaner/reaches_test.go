package main

import (
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func reaches(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: reaches JOB STATE")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := ts.Exec("sh", "-c", `gleaner jobs "$1" --json | grep -q "\"state\": \"$2\""`, "sh", args[0], args[1])
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("job %s is not %s within a minute", args[0], args[1])
		}
	}
}
