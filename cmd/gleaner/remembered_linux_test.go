package main

import (
	"os"
	"testing"
)

// TestADirectoryRemembersItsStore: commands that name no store go where the disks of the data directory are, until a gleaner
// has them in the directory again. What others can write to is not believed.
func TestADirectoryRemembersItsStore(t *testing.T) {
	dir := t.TempDir()
	here, there, beside := place{flag: "--data", name: dir}, place{flag: "--store", name: "cassandra://h1/k"}, place{flag: "--store", name: t.TempDir()}
	expect := func(want string) {
		t.Helper()
		if at, err := here.remembered(dir); err != nil || at.name != want || at.flag != "--data" {
			t.Errorf("%+v, %v; want %s", at, err, want)
		}
	}
	expect(dir)
	for _, store := range []place{there, there, beside} {
		if err := store.remember(dir); err != nil {
			t.Fatal(err)
		}
		expect(store.name)
	}
	if err := os.Chmod(storeFile(dir), 0o666); err != nil {
		t.Fatal(err)
	}
	if at, err := here.remembered(dir); err == nil {
		t.Errorf("others wrote %s, and it is believed", at.name)
	}
	if err := os.Chmod(storeFile(dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing to forget
		if err := here.remember(dir); err != nil {
			t.Fatal(err)
		}
		expect(dir)
	}
}
