package disk_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"gleaner/fabric/disk"
)

// Environment of a test binary that is to write to a disk until it is killed.
const killedDir = "DISK_TEST_KILLED"

func TestMain(m *testing.M) {
	if at := os.Getenv(killedDir); at != "" {
		if err := writeUntilKilled(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A writer of the killed process has a group of its own and writes parts of it
// in turn, the first small and the last in place. Each slice says which turn it is of.
var killedParts = []struct{ first, count int }{{0, 1}, {1, 3}, {8, 16}, {32, 40}, {100, 200}}

const killedWriters = 4

func writeUntilKilled(at string) error {
	d, err := disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
	if err != nil {
		return err
	}
	var answers sync.Mutex
	failed := make(chan error)
	for w := range killedWriters {
		go func() {
			for turn := uint64(1); ; turn++ {
				part := int(turn) % len(killedParts)
				err := d.Write(disk.GroupID(w+1), 1, 1, int64(killedParts[part].first)*disk.SliceSize, turnBytes(turn, killedParts[part].count), turn%50 == 0)
				if err != nil {
					failed <- err
				}
				answers.Lock()
				fmt.Println(w, part, turn) // one write to the pipe: it is there when we are killed
				answers.Unlock()
			}
		}()
	}
	return <-failed
}

func turnBytes(turn uint64, count int) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, turn), count*disk.SliceSize/8)
}

// TestKill kills a process that writes, with signal 9, again and again on the same
// disk: every write that was answered is there, or a later one of the same writer.
func TestKill(t *testing.T) {
	rounds := 5
	if os.Getenv("GLEANER_LONG") != "" {
		rounds = 100
	}
	at := t.TempDir()
	id := identity(64 << 20)
	id.Log = 1 << 20 // drained all the time
	must(t, disk.Format(disk.OS{}, at, id))
	d, err := disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
	must(t, err)
	for w := range killedWriters {
		must(t, d.Create(disk.GroupID(w+1), 1, 1))
	}
	must(t, d.Close())
	writes := 0
	for range rounds {
		answered := killOne(t, at)
		d, err := disk.Open(disk.OS{}, at, disk.Options{Cluster: "c"})
		must(t, err)
		for w := range killedWriters {
			for part, turn := range answered[w] {
				writes += int(turn) / len(killedParts)
				must(t, holds(d, w, part, turn))
			}
			bad, err := d.Verify(disk.GroupID(w + 1))
			if err != nil || len(bad) > 0 {
				t.Fatalf("%v, %v", bad, err)
			}
		}
		must(t, d.Close())
	}
	t.Logf("%d writes in %d processes", writes, rounds)
}

// killOne gives the last turn that was answered, by writer and part.
func killOne(t *testing.T, at string) (answered [killedWriters][]uint64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedDir+"="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	first := bufio.NewReader(out)
	_, err = first.Peek(1) // it writes
	time.AfterFunc(time.Duration(20+rand.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	must(t, err)
	for w := range answered {
		answered[w] = make([]uint64, len(killedParts))
	}
	for {
		var w, part int
		var turn uint64
		_, err := fmt.Fscanln(first, &w, &part, &turn)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		must(t, err)
		answered[w][part] = turn
	}
	_ = cmd.Wait() // it was killed
	return answered
}

// holds says whether each slice of a part is of the turn that was answered, or of the one that was under way.
func holds(d *disk.Disk, w, part int, turn uint64) error {
	p := killedParts[part]
	buf := make([]byte, p.count*disk.SliceSize)
	if err := d.Read(disk.GroupID(w+1), 1, int64(p.first)*disk.SliceSize, buf); err != nil {
		return err
	}
	for i := range p.count {
		slice := buf[i*disk.SliceSize:][:disk.SliceSize]
		got := binary.LittleEndian.Uint64(slice)
		if turn > 0 && got != turn && got != turn+uint64(len(killedParts)) || !bytes.Equal(slice, turnBytes(got, 1)) {
			return fmt.Errorf("writer %d, part %d, slice %d: turn %d was answered and is now %d", w, part, i, turn, got)
		}
	}
	return nil
}
