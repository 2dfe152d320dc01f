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

// engines are the rooms that know an engine, and what only they may import.
var engines = map[string]string{
	"../kv/pebble":    "github.com/cockroachdb/pebble/",
	"../kv/cassandra": "github.com/apache/cassandra-gocql-driver/",
}

// TestOneRoomKnowsAnEngine: no other package imports it, in tests neither.
func TestOneRoomKnowsAnEngine(t *testing.T) {
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
			if room := peeks(filepath.ToSlash(name), strings.Trim(imported.Path.Value, `"`)); room != "" {
				t.Errorf("%s imports %s: only %s may", name, imported.Path.Value, room)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
	for file, imported := range map[string]string{
		"../fabric/x.go":    "github.com/cockroachdb/pebble/v2/vfs",
		"../kv/mem/x.go":    "github.com/cockroachdb/pebble",
		"../kv/pebble/x.go": "github.com/apache/cassandra-gocql-driver/v2",
	} {
		if peeks(file, imported) == "" {
			t.Errorf("a planted import of %s was not seen", imported)
		}
	}
}

// peeks gives the room that alone may import what a file of another room imports.
func peeks(file, imported string) string {
	for room, engine := range engines {
		ours := path.Dir(file) == room || strings.HasPrefix(file, room+"/")
		if !ours && strings.HasPrefix(imported+"/", engine) {
			return room
		}
	}
	return ""
}
