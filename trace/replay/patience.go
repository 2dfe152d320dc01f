package replay

import (
	"sync/atomic"
	"time"
)

// A patience is how long calls of a site wait for what may not come. Once it has ended, those
// that begin to wait afterwards have half of it, down to an eighth, until one of them gets
// what it waited for: so a program that is wrong ends after a few times its patience, not after
// one for each call.
type patience struct {
	halved atomic.Int32
	ended  atomic.Int64 // when it did last
}

const mostHalved = 3 // so that it is longer than the grace of values that are used once

// of is how long a call waits that began to at a time.
func (p *patience) of(whole time.Duration, since int64) int64 {
	halved := p.halved.Load()
	if halved > 0 && since < p.ended.Load() {
		halved--
	}
	return int64(whole >> halved)
}

// end is for a call that has waited in vain. Callers hold the site's gauge.
func (p *patience) end(since, now int64) {
	if since >= p.ended.Load() && p.halved.Load() < mostHalved {
		p.ended.Store(now)
		p.halved.Add(1)
	}
}

// met is for a call that got what it waited for.
func (p *patience) met() { p.halved.Store(0) }
