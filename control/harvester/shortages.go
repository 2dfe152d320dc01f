package harvester

import (
	"log/slog"
	"sync"
	"time"

	"gleaner/control/board"
)

// tellEvery is the shortest interval between log lines about the same waiting part.
const tellEvery = time.Minute

// Shortages reports, on the board and in the log, what waits for room.
type Shortages struct {
	board *board.Board
	log   *slog.Logger

	mu   sync.Mutex
	told map[string]time.Time
}

// NewShortages reports to a board and a log.
func NewShortages(b *board.Board, log *slog.Logger) *Shortages {
	return &Shortages{board: b, log: log, told: map[string]time.Time{}}
}

// Tell reports that a part of gleaner has to wait, and why, or with nil that it
// continues. It may be called as often as the part tries.
func (s *Shortages) Tell(of string, because error) {
	now := time.Now()
	if !s.board.Short(now, of, because) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last, told := s.told[of]; {
	case because == nil && told:
		s.log.Info("there is room again", "goes on", of)
	case because != nil && (!told || now.Sub(last) > tellEvery):
		s.log.Warn("no room: waiting", "waits", of, "because", because)
		s.told[of] = now
	}
}

// Of is Tell for one part.
func (s *Shortages) Of(part string) func(error) {
	return func(because error) { s.Tell(part, because) }
}
