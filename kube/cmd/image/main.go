// Command image builds gleaner-kube for Linux and writes it as an OCI archive, without a
// daemon: 'cd kube && go run ./cmd/image --out gleaner-kube.tar'.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"gleaner/image"
	"gleaner/input"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 2 for bad input, 1 for a failure.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "gleaner-kube.tar", "the `file` to write")
	name := flags.String("name", "gleaner.local/gleaner-kube:dev", "the name of the image")
	arch := flags.String("arch", runtime.GOARCH, "the architecture of the nodes, as Go calls it: amd64, arm64")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	err := write(*out, *name, *arch, flags.Args())
	if err == nil {
		fmt.Fprintf(stdout, "%s has the image %s for linux/%s\n", *out, *name, *arch)
		return 0
	}
	fmt.Fprintln(stderr, "image:", err)
	if input.Is(err) {
		return 2
	}
	return 1
}

func write(out, name, arch string, more []string) error {
	if len(more) > 0 {
		return input.Errorf("", "%q is not expected", more[0])
	}
	if name == "" {
		return input.Errorf("--name", "is needed: the name of the image")
	}
	if info, err := os.Stat(filepath.Dir(out)); err != nil || !info.IsDir() {
		return input.Errorf("--out", "%s is no folder", filepath.Dir(out))
	}
	program, err := build(arch)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(out), ".image-") // written whole or not at all
	if err != nil {
		return input.Errorf("--out", "%v", err)
	}
	defer os.Remove(file.Name())
	err = image.Write(file, image.Image{Name: name, Architecture: arch, Program: program, Path: "gleaner-kube", User: "65532"})
	if err := errors.Join(err, file.Close(), os.Chmod(file.Name(), 0o644)); err != nil {
		return err
	}
	return os.Rename(file.Name(), out)
}

// build builds gleaner-kube as a static binary; the same sources give the same bytes.
func build(arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "gleaner-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "gleaner-kube")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", to, "gleaner/kube/cmd/gleaner-kube")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build gleaner-kube for linux/%s: %w: %s", arch, err, said)
	}
	return os.ReadFile(to)
}
