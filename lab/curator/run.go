package curator

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"gleaner/curator/learn"
	"gleaner/sim/oltp"
	"gleaner/sim/tiers"
)

// Thresholds of tiering (NSDI'17 §3.3): it runs when the SSDs are more than full and
// the HDDs not more than target, and frees share of the SSDs. §3.4.1 shows the first;
// the others are ours. The last is what moves in the five minutes after a run.
const (
	full   = 0.75
	target = 0.90
	share  = 0.0075
)

// slower is how many times fewer requests arrive than in the paper: the disks of
// FAST'12 serve so many of each workload, and twice as many of some only.
const slower = 80

// features are those of learn.Tiering that a simulation without CPU and memory has.
func features() []string { return learn.Tiering()[2:] }

// A Result is what a workload got.
type Result struct {
	LatencyMS float64 // mean of all requests
	SSDReadGB float64 // of requests
	IOPS      float64 // of all disks, for requests and moves
	Runs      float64 // of tiering
}

// A decider says whether to run tiering now, and when to ask again.
type decider func(learn.Observation) learn.Decision

// thresholds polls like the learner, and decides as fixed thresholds do.
func thresholds(o learn.Observation) learn.Decision {
	d := learn.Decision{Run: o.Due && !o.Blocked, Why: learn.Thresholds, Next: o.At.Add(learn.Poll)}
	if d.Run {
		d.Next = o.At.Add(learn.AfterRun)
	}
	return d
}

// never does not run at all.
func never(o learn.Observation) learn.Decision { return learn.Decision{Next: o.At.Add(learn.Poll)} }

// start is the time at which a simulation begins.
func start() time.Time { return time.Date(2017, 3, 27, 0, 0, 0, 0, time.UTC) }

// A play is a workload on the paper's cluster.
type play struct {
	store    *tiers.Store
	at       time.Duration // of the last poll
	recorded []learn.Recorded
	runs     int
	latency  sum // of all requests, in ms
	recent   sum // of those since the last poll

	reads, writes int64 // of the disks up to the last poll
}

type sum struct{ total, n float64 }

func (s *sum) add(v float64) { s.total, s.n = s.total+v, s.n+1 }

// mean is NaN if there is nothing.
func (s *sum) mean() float64 {
	if s.n == 0 {
		return math.NaN()
	}
	return s.total / s.n
}

// run plays a workload and returns its result and what was polled. The SSDs are as
// full as they get when it begins: the paper's are in the 90s after data came in
// (§3.4.2).
func run(ctx context.Context, name string, length time.Duration, seed uint64, decide decider) (Result, []learn.Recorded, error) {
	w, err := oltp.Find(name)
	if err != nil {
		return Result{}, nil, err
	}
	if w, err = w.Scaled(1, slower); err != nil {
		return Result{}, nil, err
	}
	store, err := tiers.New(tiers.Paper(), w.VDisks(), tiers.UpTo)
	if err != nil {
		return Result{}, nil, err
	}
	p := &play{store: store}
	next := learn.Poll
	stream := w.Requests(rand.New(rand.NewPCG(seed, 0)))
	for r := stream.Next(); r.At < length; r = stream.Next() {
		for ; next <= r.At; next = p.poll(next, decide) {
			if err := ctx.Err(); err != nil {
				return Result{}, nil, err
			}
		}
		ms := 1e3 * store.Serve(r).Seconds()
		p.latency.add(ms)
		p.recent.add(ms)
	}
	reads, writes := store.Operations()
	return Result{p.latency.mean(), float64(store.SSDRead) / 1e9, float64(reads+writes) / length.Seconds(), float64(p.runs)}, p.recorded, nil
}

// poll asks, does what was decided, and returns when to poll again.
func (p *play) poll(at time.Duration, decide decider) time.Duration {
	p.store.Advance(at)
	o := p.observe(at)
	d := decide(o)
	p.recorded = append(p.recorded, learn.Recorded{At: o.At, State: o.State, LatencyMS: o.LatencyMS, Ran: d.Run})
	if d.Run {
		p.runs++
		p.store.Tier(share)
	}
	return d.Next.Sub(start())
}

func (p *play) observe(at time.Duration) learn.Observation {
	ssd, hdd := p.store.Usage()
	reads, writes := p.store.Operations()
	seconds := (at - p.at).Seconds()
	riops, wiops := float64(reads-p.reads)/seconds, float64(writes-p.writes)/seconds
	o := learn.Observation{At: start().Add(at), State: []float64{100 * ssd, riops + wiops, riops, wiops}, LatencyMS: p.recent.mean(),
		Due: ssd > full, Blocked: hdd > target}
	p.at, p.reads, p.writes, p.recent = at, reads, writes, sum{}
	return o
}
