package history

import (
	"context"
	"time"

	"gleaner/cluster"
	"gleaner/kv"
)

// A Summary is what the store holds of one server.
type Summary struct {
	Server
	First, Last time.Time // zero without samples
	Samples     int64
	Bytes       int64 // of the chunks that count, with their keys
}

// Summaries tells what is held of every server, in the order of their names. It
// reads the index, and of the samples only days that lie in several chunks.
func (s *Store) Summaries(ctx context.Context) ([]Summary, error) {
	l, err := s.ledger.read(ctx)
	if err != nil {
		return nil, err
	}
	return s.summaries(ctx, l)
}

func (s *Store) summaries(ctx context.Context, l *ledger) ([]Summary, error) {
	servers, err := s.countedServers(ctx, l)
	if err != nil {
		return nil, err
	}
	all := make([]Summary, len(servers))
	byID := make(map[cluster.ServerID]*Summary, len(servers))
	for i, server := range servers {
		all[i].Server = server
		byID[server.ID] = &all[i]
	}
	for d, err := range s.index(ctx, l, kv.Range{}) {
		if err != nil {
			return nil, err
		}
		sum := byID[d.server]
		switch {
		case sum == nil: // it is being removed
		case d.sure:
			sum.add(d.day, d.header, d.size)
		default:
			if err := s.summarise(ctx, l, sum, d.day); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// summarise adds a day by its chunks, which may share moments.
func (s *Store) summarise(ctx context.Context, l *ledger, sum *Summary, day int64) error {
	for d, err := range s.serverDays(ctx, l, sum.ID, day, day) {
		if err != nil {
			return err
		}
		points, err := s.points(nil, sum.ID, d)
		if err != nil {
			return err
		}
		size := 0
		for _, chunk := range d.chunks {
			size += len(chunk)
		}
		sum.add(day, chunkHeader{count: len(points), first: points[0].milli % dayMilli, last: points[len(points)-1].milli % dayMilli}, size)
		sum.Bytes += int64((len(d.chunks) - 1) * (len(sum.ID) + 12))
	}
	return nil
}

// add adds a day, which comes after those added before.
func (sum *Summary) add(day int64, h chunkHeader, size int) {
	sum.Samples += int64(h.count)
	sum.Bytes += int64(len(sum.ID) + 12 + size)
	if sum.First.IsZero() {
		sum.First = time.UnixMilli(day*dayMilli + h.first).UTC()
	}
	sum.Last = time.UnixMilli(day*dayMilli + h.last).UTC()
}
