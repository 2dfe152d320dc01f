package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// README and the pages mention only commands and flags that exist, and README
// mentions every command.
func TestPagesMentionCommandsThatExist(t *testing.T) {
	root := newRoot()
	flags := allFlags(root)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	views, err := filepath.Glob("../../web/page/templates/*.html")
	if err != nil || len(views) == 0 {
		t.Fatalf("no views: %v", err)
	}
	command := regexp.MustCompile("(?m)(?:^|`|<code>)gleaner ([a-z]+)([^|`'<\n]*)")
	var named []string
	for _, page := range append(append(pages, views...), "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			if c, _, err := root.Find(m[1:2]); err != nil || c == root {
				t.Errorf("%s: there is no command 'gleaner %s'", filepath.Base(page), m[1])
			}
			for _, f := range regexp.MustCompile(` --([a-z][a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
				if !flags[f[1]] {
					t.Errorf("%s: no command has the flag --%s", filepath.Base(page), f[1])
				}
			}
		}
		if strings.HasSuffix(page, "README.md") {
			for _, m := range regexp.MustCompile("(?:`gleaner |`|gleaner )([a-z]+)").FindAllStringSubmatch(string(text), -1) {
				named = append(named, m[1])
			}
		}
	}
	for _, c := range root.Commands() {
		plain := c.Hidden || c.Name() == "completion" || c.Name() == "version" // known from elsewhere
		if !plain && !slices.Contains(named, c.Name()) {
			t.Errorf("README.md does not mention 'gleaner %s'", c.Name())
		}
	}
}

func allFlags(root *cobra.Command) map[string]bool {
	flags := map[string]bool{"help": true}
	note := func(f *pflag.Flag) { flags[f.Name] = true }
	root.Flags().VisitAll(note)
	root.PersistentFlags().VisitAll(note)
	for _, c := range root.Commands() {
		for name := range allFlags(c) {
			flags[name] = true
		}
	}
	return flags
}
