package kv_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyKVPebbleKnowsPebble: no other package imports Pebble, in tests neither.
func TestOnlyKVPebbleKnowsPebble(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, imported := range file.Imports {
			if peeks(filepath.ToSlash(name), strings.Trim(imported.Path.Value, `"`)) {
				t.Errorf("%s imports %s: only kv/pebble may", name, imported.Path.Value)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
	if !peeks("../fabric/x.go", "github.com/cockroachdb/pebble/v2/vfs") || !peeks("../kv/mem/x.go", "github.com/cockroachdb/pebble") {
		t.Error("a planted import was not seen")
	}
}

// peeks tells whether a file of ours imports Pebble and is not of kv/pebble.
func peeks(file, imported string) bool {
	ours := path.Dir(file) == "../kv/pebble" || strings.HasPrefix(file, "../kv/pebble/")
	return !ours && strings.HasPrefix(imported+"/", "github.com/cockroachdb/pebble/")
}
