package fabric_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain has more tests at once than there are cores, unless told how many: they wait for servers most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", fmt.Sprint(3*runtime.NumCPU())); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
