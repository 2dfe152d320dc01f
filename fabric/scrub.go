package fabric

import (
	"context"
	"errors"
	"time"

	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
)

// What is stored is read again and again, one group after the other, so that what has rotted is found while another replica is good. It takes at
// most a tenth of the time, begins when the front has been open for a while, and rests while upkeep is paused.
const (
	scrubAfter = 10 * time.Minute
	scrubRest  = time.Second // at least, after each group
	scrubShare = 10          // of the time is that which it may take: the tenth part
)

// Scrubbed is how far the front has come with reading all that is stored.
type Scrubbed struct {
	Began   time.Time `json:"began,omitzero"` // when the pass began that is under way; zero before the first
	Groups  int       `json:"groups"`         // that this pass has read
	Passes  int       `json:"passes"`         // that ended
	Corrupt int       `json:"corrupt"`        // slices that were found to be rotten, in all passes
}

// scrub reads all groups until ctx ends.
func (f *Front) scrub(ctx context.Context) {
	for wait := scrubAfter; sleep(ctx, wait); wait = scrubAfter {
		f.curation.scrubs(func(s *Scrubbed) { s.Began, s.Groups = f.o.Now().UTC().Truncate(time.Second), 0 })
		if err := f.scrubAll(ctx); err != nil {
			if ctx.Err() == nil {
				f.log.Warn("not all that is stored could be read", "error", err)
			}
			continue
		}
		f.curation.scrubs(func(s *Scrubbed) { s.Passes++ })
	}
}

// scrubAll reads every group once. It lists them first, because a store should not be read from for hours at a stretch.
func (f *Front) scrubAll(ctx context.Context) error {
	var ids []disk.GroupID
	for g, err := range f.maps.Groups(ctx) {
		if err != nil {
			return err
		}
		ids = append(ids, g.ID)
	}
	for _, id := range ids {
		for rests, err := f.curation.paused(ctx); rests || err != nil; rests, err = f.curation.paused(ctx) {
			if !sleep(ctx, scrubRest) {
				return ctx.Err()
			}
		}
		begun := time.Now()
		corrupt, err := f.scrubGroup(ctx, id)
		if err != nil {
			return err
		}
		f.curation.scrubs(func(s *Scrubbed) { s.Groups, s.Corrupt = s.Groups+1, s.Corrupt+corrupt })
		if !sleep(ctx, max(scrubRest, (scrubShare-1)*time.Since(begun))) {
			return ctx.Err()
		}
	}
	return nil
}

// scrubGroup reads the replicas of a group that can be had and whose servers are not needed by their owners. Those with rotten slices, or whose files are gone, are made anew.
func (f *Front) scrubGroup(ctx context.Context, id disk.GroupID) (corrupt int, err error) {
	g, _, err := f.maps.Group(ctx, id)
	if errors.Is(err, maps.ErrNotFound) || err == nil && g.State() != group.Whole { // it is repaired first
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, on := range g.Good {
		if s, here := f.pool.server(on); !here || f.pool.busy(s) {
			continue
		}
		bad, err := f.verify(ctx, on, id)
		corrupt += len(bad)
		if err == nil && len(bad) > 0 || errors.Is(err, disk.ErrNotFound) {
			f.noteDamage(id, on)
		}
	}
	return corrupt, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
