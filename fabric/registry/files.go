package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gleaner/fabric/disk"
	"gleaner/input"
)

// files keeps the entries in a data directory that all servers of the cluster have.
type files struct{ *Registry }

// A fileLock is held until its file is closed, at the latest when the process ends.
type fileLock struct{ io.Closer }

func (l fileLock) release() error        { return l.Close() }
func (l fileLock) lost() <-chan struct{} { return nil }

func (f files) claim(_ context.Context, name string) (lock, error) {
	held, err := disk.OS{}.Lock(f.file(filepath.Join(servers, name+".lock")))
	if errors.Is(err, disk.ErrInUse) {
		return nil, ErrRuns
	}
	if err != nil {
		return nil, err
	}
	return fileLock{held}, nil
}

func (f files) write(_ context.Context, s Server) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	fresh, err := f.Registry.write(text)
	if err == nil {
		err = os.Rename(fresh, f.file(filepath.Join(servers, s.Name+entry)))
	}
	if err == nil {
		err = disk.OS{}.SyncDir(f.file(servers))
	}
	return err
}

func (f files) all(context.Context) ([]Server, error) {
	names, err := os.ReadDir(f.file(servers)) // sorted
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	var all []Server
	for _, e := range names {
		name, ok := strings.CutSuffix(e.Name(), entry)
		if !ok {
			continue
		}
		file := f.file(filepath.Join(servers, e.Name()))
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("registry: %w", err)
		}
		s, err := decodeEntry(name, text)
		if err != nil {
			return nil, input.Errorf(file, "%v", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// decodeEntry reads the entry that stands under a name.
func decodeEntry(name string, text []byte) (Server, error) {
	s, err := decodeServer(text)
	if err == nil && s.Name != name {
		err = fmt.Errorf("the entry of another server, %q", s.Name)
	}
	return s, err
}
