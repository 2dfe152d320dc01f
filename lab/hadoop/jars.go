package hadoop

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"gleaner/lab/maven"
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

// Fetched is about how many jars Fetch fetches.
const Fetched = 150

// Fetch resolves the jars into a folder of the cache, once. fetched is called with 0
// before anything is fetched over the network, and after each jar with how many have come;
// it may be nil.
func Fetch(ctx context.Context, cache string, fetched func(jars int)) (Jars, error) {
	dir := filepath.Join(cache, "hadoop-"+Version)
	jars := Jars{Lib: filepath.Join(dir, "lib"), Descriptors: filepath.Join(dir, "hadoop.protoset")}
	if err := maven.Java(); err != nil {
		return jars, fmt.Errorf("hadoop: %w", err)
	}
	if _, err := os.Stat(jars.Descriptors); err == nil {
		return jars, nil // written last
	}
	if err := maven.Maven(); err != nil {
		return jars, fmt.Errorf("hadoop: %w", err)
	}
	if fetched != nil {
		fetched(0)
	}
	if err := maven.Fetch(ctx, pom, jars.Lib, fetched); err != nil {
		return jars, fmt.Errorf("hadoop: %w", err)
	}
	return jars, jars.describe()
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
