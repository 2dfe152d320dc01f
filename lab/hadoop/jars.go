package hadoop

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Version is the Hadoop that is run.
const Version = "3.4.2"

//go:embed pom.xml
var pom []byte

// Jars is a folder with all jars of the masters.
type Jars struct {
	Lib         string // the jars
	Descriptors string // a descriptor set of all their messages
}

// ErrMissing is wrapped by errors that say which program to install.
var ErrMissing = errors.New("is not installed")

// Fetch resolves the jars into a folder of the cache, once. fetching is called
// before anything is fetched over the network.
func Fetch(ctx context.Context, cache string, fetching func()) (Jars, error) {
	dir := filepath.Join(cache, "hadoop-"+Version)
	jars := Jars{Lib: filepath.Join(dir, "lib"), Descriptors: filepath.Join(dir, "hadoop.protoset")}
	if err := installed("java", "openjdk-17-jre-headless"); err != nil {
		return jars, err
	}
	if _, err := os.Stat(jars.Descriptors); err == nil {
		return jars, nil // written last
	}
	if err := installed("mvn", "maven"); err != nil {
		return jars, err
	}
	if fetching != nil {
		fetching()
	}
	if err := resolve(ctx, jars.Lib); err != nil {
		return jars, err
	}
	return jars, jars.describe()
}

// Cache is the default folder of the jars.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("hadoop: no cache folder: %w", err)
	}
	return filepath.Join(dir, "gleaner"), nil
}

func installed(program, debian string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("hadoop: %s %w; on Debian: apt-get install %s", program, ErrMissing, debian)
	}
	return nil
}

// resolve lets Maven fetch the jars. After an interruption, the next call fetches
// the rest.
func resolve(ctx context.Context, lib string) error {
	if err := os.MkdirAll(lib, 0o755); err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	file := filepath.Join(filepath.Dir(lib), "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file,
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies", "-DoutputDirectory="+lib)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hadoop: fetch the jars with Maven: %w: %s", err, firstLine(out))
	}
	return nil
}

func firstLine(out []byte) string {
	for line := range strings.Lines(string(bytes.TrimSpace(out))) {
		if strings.Contains(line, "ERROR") {
			return strings.TrimSpace(line)
		}
	}
	return "it gave no reason"
}

// describe writes the descriptor set beside the jars.
func (j Jars) describe() error {
	set, err := Descriptors(j.Lib)
	if err != nil {
		return err
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	temporary := j.Descriptors + ".new"
	if err := os.WriteFile(temporary, out, 0o644); err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	return os.Rename(temporary, j.Descriptors)
}
