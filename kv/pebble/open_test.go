package pebble

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gleaner/input"
	"gleaner/kv"
)

// TestBadDirectory: each mistake gives one line that names the directory, and
// leaves it as it was.
func TestBadDirectory(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"foreign", map[string]string{"holiday.jpg": "x"}, "is not a gleaner store (it holds holiday.jpg, and no file GLEANER); choose an empty directory"},
		{"newer", map[string]string{"GLEANER": "gleaner kv format 3\n"}, "was written by a newer gleaner (format 3; this one reads up to 2)"},
		{"garbled", map[string]string{"GLEANER": "gleaner kv form"}, "is not a gleaner store: its file GLEANER is not one of ours"},
		{"empty marker", map[string]string{"GLEANER": ""}, "is not a gleaner store: its file GLEANER is not one of ours"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tc.files {
				write(t, filepath.Join(dir, name), text)
			}
			refused(t, dir, tc.want)
			if entries, _ := os.ReadDir(dir); len(entries) != len(tc.files) {
				t.Errorf("the directory now holds %v", entries)
			}
		})
	}
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		write(t, file, "")
		refused(t, file, "is a file; the store needs a directory")
		refused(t, filepath.Join(file, "below"), "cannot be written: not a directory")
	})
	t.Run("read-only", func(t *testing.T) {
		dir := "/proc/gleaner" // where root cannot make a directory either
		_, err := Open(dir, Options{})
		if err == nil || !input.Is(err) || !strings.HasPrefix(err.Error(), dir+": cannot be written: ") {
			t.Errorf("got error %v", err)
		}
		if os.Geteuid() == 0 {
			return // nothing else is read-only for root
		}
		dir = t.TempDir()
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "cannot be written: permission denied")
	})
}

// refused makes sure that opening dir is the user's mistake, told in one line.
func refused(t *testing.T, dir, want string) {
	t.Helper()
	_, err := Open(dir, Options{})
	if err == nil || !input.Is(err) || err.Error() != dir+": "+want {
		t.Errorf("got error %v, want an input error %s: %s", err, dir, want)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestHeld opens a directory twice: in this process, by other names of it, and
// in another process.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	for _, name := range []string{dir, dir + "/", link, filepath.Base(dir)} {
		held(t, name)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	release := holdElsewhere(t, dir)
	held(t, dir)
	release()
	s, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func held(t *testing.T, dir string) {
	t.Helper()
	_, err := Open(dir, Options{})
	if !errors.Is(err, kv.ErrHeld) || !input.Is(err) || strings.Contains(err.Error(), "\n") {
		t.Errorf("open %s, which is open: got error %v", dir, err)
	}
}

// holdElsewhere runs TestHold in a process of its own.
func holdElsewhere(t *testing.T, dir string) (release func()) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHold$")
	cmd.Env = append(os.Environ(), "GLEANER_TEST_HOLD="+dir)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	}
}

// TestHold is the other process of TestHeld: it holds a directory until its input ends.
func TestHold(t *testing.T) {
	dir := os.Getenv("GLEANER_TEST_HOLD")
	if dir == "" {
		t.Skip("only as a process of TestHeld")
	}
	s, err := Open(dir, Options{})
	fmt.Println(map[bool]string{true: "held", false: "not held"}[err == nil])
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamaged harms the files of a store, kind by kind: it says so, and does not make
// an empty store of it.
func TestDamaged(t *testing.T) {
	for name, harm := range map[string]func(*testing.T, string){
		"manifest gone":    func(t *testing.T, dir string) { each(t, dir, "MANIFEST-*", os.Remove) },
		"pointer gone":     func(t *testing.T, dir string) { each(t, dir, "marker.manifest.*", os.Remove) },
		"manifest garbled": func(t *testing.T, dir string) { each(t, dir, "MANIFEST-*", garble) },
		"table gone":       func(t *testing.T, dir string) { each(t, dir, "*.sst", os.Remove) },
		"log garbled":      func(t *testing.T, dir string) { each(t, dir, "*.log", garble) },
		"table garbled":    func(t *testing.T, dir string) { each(t, dir, "*.sst", garble) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			makeStore(t, dir)
			harm(t, dir)
			err := readAll(t, dir)
			if err == nil || !strings.HasPrefix(err.Error(), "kv: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v", err)
			}
			t.Log(err)
		})
	}
}

// makeStore makes a store of which half is in a table file, half in the log.
func makeStore(t *testing.T, dir string) {
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := s.LooseTable(t.Context(), "l")
	if err != nil {
		t.Fatal(err)
	}
	half := func(part string) {
		fillRandom(t, tab, 10_000, 100, func(i int) kv.Key { return kv.Key{Part: []byte(part), Row: fmt.Append(nil, i)} })
	}
	half("flushed")
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	half("logged")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	tab, err := s.LooseTable(t.Context(), "l")
	if err != nil {
		return err
	}
	for _, err := range tab.Scan(t.Context(), kv.Range{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func each(t *testing.T, dir, pattern string, do func(string) error) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	for _, name := range names {
		if err := do(name); err != nil {
			t.Fatal(err)
		}
	}
}

// garble turns the bits of a file, but for its last tenth.
func garble(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for i := range b[:len(b)*9/10] {
		b[i] ^= 0xff
	}
	return os.WriteFile(name, b, 0o644)
}

// TestOlder: a store of an older format is read, and is of this format from then on.
func TestOlder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, marker), "gleaner kv format 1\n")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, marker)); err != nil || string(text) != "gleaner kv format 2\n" {
		t.Errorf("%q, %v", text, err)
	}
}
