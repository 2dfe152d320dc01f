package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages of docs/tasks are tested as sessions: in a block called console, a line after
// $ is a command, and each other line is one of its output, in which … is any text. A
// command that ends in & goes on until the page ends.
func TestPagesOfTasks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/tasks/*.md")
	if err != nil || len(pages) < 7 {
		t.Fatalf("%d pages of tasks: %v", len(pages), err)
	}
	dir := t.TempDir()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		script := sessionOf(string(text))
		if !strings.Contains(script, "gleaner ") {
			t.Errorf("%s has no command to test", page)
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(page), ".md"), "-", "_")
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	playScripts(t, dir)
}

// sessionOf makes a script of a page.
func sessionOf(page string) string {
	script := "[!linux] skip 'the pages are for Linux'\nenv XDG_CACHE_HOME=$WORK/cache\n"
	var behind []string
	begun := false // a command goes on behind, and may not have begun to listen
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSuffix(line, "\n")
			command, is := strings.CutPrefix(line, "$ ")
			switch ahead, goesOn := strings.CutSuffix(command, " &"); {
			case is && goesOn:
				name := fmt.Sprintf("behind%d", len(behind))
				behind = append(behind, name)
				script += fmt.Sprintf("exec %s &%s&\n", ahead, name)
				begun = true
			case is && begun:
				script, begun = script+untilUp(command)+command+"\n", false
			case is:
				script += command + "\n"
			case line != "":
				script += "stdout '" + strings.ReplaceAll(pattern(line), "'", "''") + "'\n"
			}
		}
	}
	for _, name := range behind {
		script += "kill -INT " + name + "\nwait " + name + "\n"
	}
	return script
}

// untilUp waits until what goes on behind answers.
func untilUp(command string) string {
	if strings.HasPrefix(command, "gleaner trace replay") {
		return "until " + command + "\n"
	}
	return "until gleaner status\n"
}

// pattern is the expression of a line of output.
func pattern(line string) string {
	parts := strings.Split(line, "…")
	for i := range parts {
		parts[i] = regexp.MustCompile(` +`).ReplaceAllString(regexp.QuoteMeta(parts[i]), " +")
	}
	return "^" + strings.Join(parts, ".*") + "$"
}
