package maps

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

// A Server is what is remembered of a data server, to notice that it was reimaged.
type Server struct {
	Name     cluster.ServerID          `json:"name"`
	Since    time.Time                 `json:"since"`    // when it was first seen
	Reimages int                       `json:"reimages"` // since then
	Disks    map[string]cluster.DiskID `json:"disks"`    // that it had when it was last seen, by path
}

// Servers reads what is remembered of all servers.
func (m *Maps) Servers(ctx context.Context) iter.Seq2[Server, error] {
	return func(yield func(Server, error) bool) {
		for r, err := range m.servers.Scan(ctx, kv.Range{}) {
			var s Server
			if err == nil {
				s, err = decodeServer(r.Value)
			}
			if err != nil {
				err = fmt.Errorf("fabric: server %s: %w", r.Key.Part, err)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func decodeServer(value []byte) (s Server, err error) {
	if err := json.Unmarshal(value, &s); err != nil {
		return Server{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return s, nil
}

// SetServer remembers a server as it is now.
func (m *Maps) SetServer(ctx context.Context, s Server) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = m.writer.Update(ctx, m.servers, kv.Key{Part: []byte(s.Name)}, func(kv.Record) ([]byte, error) { return value, nil })
	return wrap(fmt.Sprintf("remember server %s", s.Name), err)
}
