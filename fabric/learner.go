package fabric

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gleaner/curator/learn"
	"gleaner/fabric/upkeep"
	"gleaner/kv"
)

// A learner decides when the coldest data of the fastest tier is moved down, in place of the threshold f (NSDI'17 §4). It sees what the clients of
// this front see, so each front of a store has one of its own.
type learner struct {
	rows kv.LooseTable
	key  kv.Key

	mu     sync.Mutex
	agent  *learn.Agent
	next   time.Time // of the next poll
	at     time.Time // of the last
	served Served    // up to the last
	said   Learning
}

// A Learning is what the learner has decided of late, and why.
type Learning struct {
	Task      string     `json:"task"`
	Decisions int        `json:"decisions"` // in all, also of earlier runs of the front
	Runs      int        `json:"runs"`      // since the front was opened
	Decision             // the last
	Recent    []Decision `json:"recent,omitempty"` // the last of them, the last one last
}

// A Decision is whether data was moved down at a time.
type Decision struct {
	At        time.Time `json:"at,omitzero"`
	Run       bool      `json:"run"`
	Why       string    `json:"why"`
	Wait      float64   `json:"value_wait"` // what was learned of the two actions in the last state, in standard deviations of the reward
	Move      float64   `json:"value_run"`
	LatencyMS float64   `json:"latency_ms"` // mean of the requests before it; 0 if there was none
}

// mostRecent is how many decisions are remembered for people to see.
const mostRecent = 200

// learnable are the features of the tiering task, of those that a front knows.
func learnable() []string { return learn.Tiering()[2:] }

// newLearner gives a learner with what an earlier one of the same front has learned.
func newLearner(ctx context.Context, store kv.Store, holder string) (*learner, error) {
	rows, err := store.LooseTable(ctx, "learning")
	if err != nil {
		return nil, err
	}
	l := &learner{rows: rows, key: kv.Key{Part: []byte(upkeep.TierDown), Row: []byte(holder)}, said: Learning{Task: upkeep.TierDown}}
	cfg := learn.Default(learnable())
	cfg.Safety = true
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	r, err := rows.Get(ctx, l.key)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		l.agent, err = learn.New(cfg, rng)
	case err == nil:
		l.agent, err = learn.Read("what was learned about "+upkeep.TierDown, r.Value, cfg, rng)
	}
	return l, err
}

// poll decides whether to move data down now, if it is time to decide, and keeps what was learned from the last decision.
func (l *learner) poll(ctx context.Context, now time.Time, s Served, v upkeep.View, p upkeep.Policy, due, idle bool) (run bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		return false, nil
	}
	o := l.observe(now, s, v, p)
	o.Due, o.Blocked = due, o.Blocked || !idle
	d := l.agent.Poll(o)
	l.next, l.at, l.served = d.Next, now, s
	said := Decision{At: now.UTC(), Run: d.Run, Why: string(d.Why)}
	said.Wait, said.Move = l.agent.Values(now, o.State)
	if !math.IsNaN(o.LatencyMS) {
		said.LatencyMS = o.LatencyMS
	}
	l.said.Decision, l.said.Decisions = said, l.agent.Decisions()
	l.said.Recent = append(l.said.Recent, said)
	l.said.Recent = l.said.Recent[max(len(l.said.Recent)-mostRecent, 0):]
	if d.Run {
		l.said.Runs++
	}
	text, err := l.agent.Marshal()
	if err == nil {
		err = l.rows.Put(ctx, kv.Record{Key: l.key, Value: text})
	}
	return d.Run, err
}

// observe is the state of the fabric, and how long requests took since the last poll.
func (l *learner) observe(now time.Time, s Served, v upkeep.View, p upkeep.Policy) learn.Observation {
	nan := math.NaN()
	o := learn.Observation{At: now, State: []float64{nan, nan, nan, nan}, LatencyMS: nan, Blocked: true}
	if usages := v.Usages(); len(usages) > 0 {
		o.State[0] = 100 * usages[0].Share()
		o.Blocked = len(usages) == 1 || usages[1].Share() > p.D
	}
	if seconds := now.Sub(l.at).Seconds(); !l.at.IsZero() && seconds > 0 {
		reads, writes := float64(s.Reads-l.served.Reads), float64(s.Writes-l.served.Writes)
		o.State[1], o.State[2], o.State[3] = (reads+writes)/seconds, reads/seconds, writes/seconds
		if reads+writes > 0 {
			o.LatencyMS = 1e3 * (s.ReadSeconds + s.WriteSeconds - l.served.ReadSeconds - l.served.WriteSeconds) / (reads + writes)
		}
	}
	return o
}

func (l *learner) says() *Learning {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	said.Recent = slices.Clone(said.Recent)
	return &said
}
