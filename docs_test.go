package gleaner_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the Markdown files of the project.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			text, err := os.ReadFile(name)
			out[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The map in ARCHITECTURE.md names folders that are there, and every room at the top.
func TestTheMapIsTrue(t *testing.T) {
	text := pages(t)["ARCHITECTURE.md"]
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ *([a-z][a-z0-9/]*)  `).FindAllStringSubmatch(text, -1) {
		room := strings.TrimSuffix(m[1], "/")
		named[room] = true
		if info, err := os.Stat(room); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md names %s, which is no folder", room)
		}
	}
	for _, room := range regexp.MustCompile(`\b[a-z]+(?:/[a-z]+)+(?:\.md)?\b`).FindAllString(text, -1) {
		if _, err := os.Stat(room); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", room, err)
		}
	}
	walkSources(t, func(name string, _ *ast.File, _ *token.FileSet) {
		if room, _, below := strings.Cut(name, "/"); below && room != "cmd" && !named[room] {
			t.Errorf("%s is on no line of ARCHITECTURE.md's map", room)
			named[room] = true
		}
	})
}

// A room that is made of rooms lists them all in its doc.go, each below those
// that it may import.
func TestRoomsAreListedInTheirOrder(t *testing.T) {
	for outer, rooms := range within {
		text, err := os.ReadFile(path.Join(outer, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, m := range regexp.MustCompile(`(?m)^//\t([a-z]+)  `).FindAllSubmatch(text, -1) {
			room := string(m[1])
			for _, below := range rooms[room] {
				if !slices.Contains(listed, below) {
					t.Errorf("%s/doc.go lists %s above %s, which it may import", outer, room, below)
				}
			}
			listed = append(listed, room)
		}
		there := keys(rooms)
		slices.Sort(listed)
		slices.Sort(there)
		if !slices.Equal(listed, there) {
			t.Errorf("%s/doc.go lists %v, the map in layers_test.go has %v", outer, listed, there)
		}
		for room := range rooms {
			if info, err := os.Stat(path.Join(outer, room)); err != nil || !info.IsDir() {
				t.Errorf("the map in layers_test.go has %s/%s, which is no folder", outer, room)
			}
		}
	}
}

// Tests that docs/status.md and the pages name are there, and so are links.
func TestPagesNameWhatIsThere(t *testing.T) {
	tests := testNames(t)
	link := regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)
	for page, text := range pages(t) {
		for _, name := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(text, -1) {
			if page != "CHANGELOG.md" && !slices.Contains(tests, name[1]) {
				t.Errorf("%s names %s, which is no test", page, name[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(path.Join(path.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// testNames lists the tests of all packages, with build tags or without.
func testNames(t *testing.T) []string {
	t.Helper()
	var out []string
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The tour has a section with a picture for each view of the menu, names the pictures that its script takes and no others, and they are
// light enough to be kept here.
func TestTheTourHasItsPictures(t *testing.T) {
	tour := pages(t)["docs/tour.md"]
	menu, err := os.ReadFile("web/page/page.go")
	if err != nil {
		t.Fatal(err)
	}
	views := regexp.MustCompile(`\{"/[a-z]*", "([A-Za-z-]+)"\}`).FindAllSubmatch(menu, -1)
	if len(views) < 8 {
		t.Fatalf("the menu has %d entries", len(views))
	}
	for _, m := range views {
		_, section, _ := strings.Cut(tour, "\n## "+string(m[1])+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !strings.Contains(section, "](pictures/") {
			t.Errorf("the tour has no picture of %s", m[1])
		}
	}
	script, err := os.ReadFile("web/walk/tour.mjs")
	if err != nil {
		t.Fatal(err)
	}
	var named, taken []string
	for _, m := range regexp.MustCompile(`\]\(pictures/([a-z-]+)\.webp\)`).FindAllStringSubmatch(tour, -1) {
		named = append(named, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^  \["([a-z-]+)",`).FindAllSubmatch(script, -1) {
		taken = append(taken, string(m[1]))
	}
	slices.Sort(named)
	slices.Sort(taken)
	if !slices.Equal(named, taken) {
		t.Errorf("the tour shows %v, its script takes %v", named, taken)
	}
	var size int64
	kept, err := fs.Glob(os.DirFS("docs/pictures"), "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kept {
		info, err := os.Stat("docs/pictures/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
		if path.Ext(name) == ".webp" && !slices.Contains(named, strings.TrimSuffix(name, ".webp")) {
			t.Errorf("docs/pictures has %s, which the tour does not show", name)
		}
	}
	if most := int64(1500 << 10); size > most {
		t.Errorf("the pictures have %d bytes, more than %d", size, most)
	}
}
