// Package maven fetches the published jars of Java systems that the lab starts.
package maven

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrMissing is wrapped by errors that say which program to install.
var ErrMissing = errors.New("is not installed")

// Cache is the default folder of the jars.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("maven: no cache folder: %w", err)
	}
	return filepath.Join(dir, "gleaner"), nil
}

// Java returns an error that says how to install Java, if it is missing.
func Java() error { return installed("java", "openjdk-17-jre-headless") }

// Maven returns an error that says how to install Maven, if it is missing.
func Maven() error { return installed("mvn", "maven") }

func installed(program, debian string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s %w; on Debian: apt-get install %s", program, ErrMissing, debian)
	}
	return nil
}

// Fetch has Maven fetch the jars that a pom asks for into the folder lib. After an
// interruption, the next call fetches the rest. fetched is called after each jar
// that comes over the network, with how many have come; it may be nil.
func Fetch(ctx context.Context, pom []byte, lib string, fetched func(jars int)) error {
	if err := os.MkdirAll(lib, 0o755); err != nil {
		return fmt.Errorf("maven: %w", err)
	}
	file := filepath.Join(filepath.Dir(lib), "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return fmt.Errorf("maven: %w", err)
	}
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-f", file,
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies", "-DoutputDirectory="+lib)
	said, err := watch(cmd, fetched)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("fetch the jars with Maven: %w: %s", err, firstError(said))
	}
	return nil
}

// watch runs Maven, counts the jars it downloads, and gives what it said.
func watch(cmd *exec.Cmd, fetched func(int)) ([]byte, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	jars := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "Downloaded from ") && strings.Contains(line, ".jar ") && fetched != nil {
			jars++
			fetched(jars)
		}
		if strings.Contains(line, "ERROR") {
			said.WriteString(line + "\n")
		}
	}
	return said.Bytes(), cmd.Wait()
}

func firstError(said []byte) string {
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "ERROR") {
			return strings.TrimSpace(line)
		}
	}
	return "it gave no reason"
}
