package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// ErrNoGo is the error of building without Go.
var ErrNoGo = errors.New("engines are built from their Go modules, and there is no 'go' here; install Go 1.26 or later: 'apt-get install golang', or https://go.dev/doc/install")

// binary is where the binary of a module is kept: in the user's cache, by its sources.
func binary(name string, sources []byte) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("engine: %w", err)
	}
	return filepath.Join(cache, "gleaner", fmt.Sprintf("%s-%x-%s-%s", name, sha256.Sum256(sources), runtime.GOOS, runtime.GOARCH)), nil
}

// built returns the binary of a module, and builds it if there is none yet. It calls
// building before it builds, which takes long.
func built(ctx context.Context, name string, sources []byte, building func(), flags ...string) (string, error) {
	return builtAs(ctx, name, sources, building, []string{"CGO_ENABLED=0"}, append(flags, "-o", "built", "."))
}

// builtAs is built with the environment and the arguments that 'go build' needs for what it
// calls "built": a binary, or a folder of them.
func builtAs(ctx context.Context, name string, sources []byte, building func(), env, args []string) (string, error) {
	at, err := binary(name, sources)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(at); err == nil {
		return at, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", ErrNoGo
	}
	building()
	if err := build(ctx, sources, at, env, args); err != nil {
		return "", fmt.Errorf("engine: build %s: %w", name, err)
	}
	return at, nil
}

// build unpacks sources and builds them; what is built is written whole or not at all.
func build(ctx context.Context, sources []byte, to string, env, args []string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, f := range txtar.Parse(sources).Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
	}
	return os.Rename(filepath.Join(dir, "built"), to)
}
