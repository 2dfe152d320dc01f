package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"gleaner/fabric/nbd/nbdtest"
	"gleaner/kv/pebble"
	"gleaner/kv/transfer"
)

// TestMain lets scripts run gleaner, the real command line, as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gleaner": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"volatile": func() { // for TestPowerCut
			fmt.Fprintln(os.Stderr, nbdtest.ServeVolatile(os.Args[1:]))
			os.Exit(1)
		},
	})
}

// TestScripts plays sessions of a user at the command line. Beside testscript's
// own commands a script has:
//
//	exits CODE COMMAND...   run a command that must end with that code
//	until COMMAND...        run a command again and again until it succeeds
//	compress FILE           write FILE.gz and FILE.zst beside FILE
//	cut FILE N              cut FILE to its first N bytes
//	hold DIR                keep a data directory open, as another process would
//	half FROM TO            begin to copy the store of a data directory to another, and stop in the midst of it
//	reaches JOB STATE       wait until a job of the gleaner that is up is in that state
//	waves FILE              write three weeks of a daily, a constant and a drifting server, hour by hour
//	same FILE               run the commands that an assessment names, and compare what they print
//
// and the condition [long], which GLEANER_LONG=1 sets.
func TestScripts(t *testing.T) { playScripts(t, "testdata/script") }

func playScripts(t *testing.T, dir string) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_DATA_HOME", env.WorkDir+"/data-home")
			return os.CopyFS(env.WorkDir+"/examples", os.DirFS(examples))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "compress": compress, "cut": cut, "hold": hold, "half": half, "reaches": reaches, "waves": waves, "same": same,
		},
		Condition: func(name string) (bool, error) {
			if name != "long" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			return os.Getenv("GLEANER_LONG") != "", nil
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = err.Error()
	}
	if code != args[0] && code != "exit status "+args[0] {
		ts.Fatalf("%v, want %s", code, args[0])
	}
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(time.Minute); ts.Exec(args[0], args[1:]...) != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("not within a minute")
		}
	}
}

func compress(ts *testscript.TestScript, _ bool, args []string) {
	text := []byte(ts.ReadFile(args[0]))
	var gz, zst bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err := w.Write(text)
	ts.Check(err)
	ts.Check(w.Close())
	z, err := zstd.NewWriter(&zst)
	ts.Check(err)
	_, err = z.Write(text)
	ts.Check(err)
	ts.Check(z.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".gz"), gz.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".zst"), zst.Bytes(), 0o600))
}

func cut(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: cut FILE N")
	}
	var n int64
	for _, digit := range args[1] {
		n = n*10 + int64(digit-'0')
	}
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

func hold(ts *testscript.TestScript, _ bool, args []string) {
	store, err := pebble.Open(kvDir(ts.MkAbs(args[0])), pebble.Options{})
	ts.Check(err)
	ts.Defer(func() { store.Close() })
}

func half(ts *testscript.TestScript, _ bool, args []string) {
	from, err := pebble.Open(kvDir(ts.MkAbs(args[0])), pebble.Options{})
	ts.Check(err)
	defer from.Close()
	to, err := pebble.Open(kvDir(ts.MkAbs(args[1])), pebble.Options{})
	ts.Check(err)
	defer to.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tables, err := from.Tables(ctx)
	ts.Check(err)
	left := 1
	if len(args) > 2 { // "all": it ends when it is to compare
		left = len(tables)
	}
	_, err = transfer.Copy{From: from, To: to, Source: ts.MkAbs(args[0]), Target: args[1], Progress: func(string, int64) {
		if left--; left == 0 {
			stop()
		}
	}}.Do(ctx)
	if !errors.Is(err, context.Canceled) {
		ts.Fatalf("a copy was not stopped: %v", err)
	}
}

func waves(ts *testscript.TestScript, _ bool, args []string) {
	rng := rand.New(rand.NewPCG(1, 1))
	var out strings.Builder
	out.WriteString("time,server,cpu\n")
	drift := 50.0
	for hour := range 21 * 24 {
		at := 1704067200 + 3600*hour
		drift += 3 * rng.NormFloat64()
		for server, cpu := range []float64{40 + 20*math.Sin(2*math.Pi*float64(hour)/24), 30, drift} {
			name := [...]string{"day", "still", "wild"}[server]
			fmt.Fprintf(&out, "%d,%s,%.2f\n", at, name, min(max(cpu+rng.NormFloat64(), 0), 100))
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out.String()), 0o600))
}

func readText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
