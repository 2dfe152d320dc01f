// Package prometheus reads utilisation from a Prometheus server, by any range
// query that yields one series per server.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"gleaner/cluster"
	"gleaner/history"
	"gleaner/input"
)

// A Query says which server to ask, what, and how to read the answer.
type Query struct {
	URL     string
	CPU     string // PromQL for the share of a server's CPU in use
	Mem     string // the same for memory; "" if not wanted
	Label   string // whose value names the server, as "instance"
	Percent bool   // the values are percent; otherwise shares from 0 to 1, as Prometheus recommends
	From    time.Time
	To      time.Time // inclusive
	Step    time.Duration
	history.ReadOptions
}

const (
	// maxPoints is how many points of a series Prometheus gives in one answer.
	maxPoints = 11_000
	// firstPoints is how many points are asked for while the number of series is
	// unknown, and answerPoints, over all series, from then on: answers are JSON and
	// are held in memory as a whole.
	firstPoints  = 60
	answerPoints = 500_000
)

// Read asks for the range, one stretch after the other, and calls emit for every
// sample. After each stretch it calls progress with the share of the range that is
// done. A mistake in the query or in a value is an input.Error.
func Read(ctx context.Context, q Query, progress func(done time.Duration), emit func(history.Sample) error) (history.ReadStats, error) {
	var stats history.ReadStats
	asked, err := q.dial()
	if err != nil {
		return stats, err
	}
	if q.Step < time.Millisecond || q.To.Before(q.From) {
		return stats, input.Errorf(q.URL, "a range from %v to %v by %v is empty", q.From.UTC(), q.To.UTC(), q.Step)
	}
	r := &reader{Query: q, api: asked, emit: emit, stats: &stats}
	points := firstPoints
	for from := q.From; !from.After(q.To); {
		to := from.Add(time.Duration(points-1) * q.Step)
		if to.After(q.To) {
			to = q.To
		}
		series, err := r.stretch(ctx, v1.Range{Start: from, End: to, Step: q.Step})
		if err != nil {
			return stats, err
		}
		points = min(max(answerPoints/max(series, 1), firstPoints), maxPoints)
		from = to.Add(q.Step)
		progress(min(from.Sub(q.From), q.To.Sub(q.From)))
	}
	if stats.Rows == 0 {
		return stats, input.Errorf(q.URL, "the query %q gave no samples from %v to %v", q.CPU, q.From.UTC(), q.To.UTC())
	}
	return stats, nil
}

func (q Query) dial() (v1.API, error) {
	if u, err := url.Parse(q.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, input.Errorf(q.URL, "not the address of a Prometheus server, such as http://localhost:9090")
	}
	client, err := api.NewClient(api.Config{Address: q.URL})
	if err != nil {
		return nil, input.Errorf(q.URL, "not the address of a Prometheus server: %v", err)
	}
	return v1.NewAPI(client), nil
}

// looks is how often Last looks at the range.
const looks = 60

// Last asks for a number a server, as its cores: the latest one within the range. A
// server that has none is not in the answer.
func (q Query) Last(ctx context.Context, query string) (map[cluster.ServerID]float64, error) {
	asked, err := q.dial()
	if err != nil {
		return nil, err
	}
	r := &reader{Query: q, api: asked}
	step := max(q.To.Sub(q.From)/looks, time.Minute)
	all, err := r.ask(ctx, query, v1.Range{Start: q.To.Add(-looks * step), End: q.To, Step: step})
	last := map[cluster.ServerID]float64{}
	for _, one := range all {
		last[one.server] = float64(one.values[len(one.values)-1].Value)
	}
	return last, err
}

type reader struct {
	Query
	api   v1.API
	emit  func(history.Sample) error
	stats *history.ReadStats
}

// stretch reads one stretch of the range and tells how many series it has.
func (r *reader) stretch(ctx context.Context, within v1.Range) (int, error) {
	cpu, err := r.ask(ctx, r.CPU, within)
	if err != nil {
		return 0, err
	}
	var mem map[cluster.ServerID]map[model.Time]model.SampleValue
	if r.Mem != "" {
		if mem, err = r.memory(ctx, within); err != nil {
			return 0, err
		}
	}
	for _, one := range cpu {
		for _, pair := range one.values {
			err := r.sample(one.server, pair, mem[one.server])
			if err == nil {
				r.stats.Rows++
				continue
			}
			if !input.Is(err) || !r.SkipBad {
				return 0, err
			}
			if r.stats.Skipped++; r.stats.Skipped == 1 {
				r.stats.FirstBad = err
			}
		}
	}
	return len(cpu), nil
}

// sample emits one moment of a server.
func (r *reader) sample(server cluster.ServerID, cpu model.SamplePair, mem map[model.Time]model.SampleValue) error {
	s := history.Sample{Milli: int64(cpu.Timestamp), Server: server, Mem: float32(math.NaN())}
	var err error
	if s.CPU, err = r.share("cpu", server, cpu); err != nil {
		return err
	}
	if value, ok := mem[cpu.Timestamp]; ok {
		if s.Mem, err = r.share("memory", server, model.SamplePair{Timestamp: cpu.Timestamp, Value: value}); err != nil {
			return err
		}
	}
	return r.emit(s)
}

func (r *reader) share(what string, server cluster.ServerID, p model.SamplePair) (float32, error) {
	value, unit := float64(p.Value), "a share from 0 to 1"
	if r.Percent {
		value, unit = value/100, "a percentage"
	}
	share, ok := history.Clamp(value)
	if !ok {
		return 0, input.Errorf(r.URL, "%s %v of server %q at %s is not %s of the whole server", what, p.Value, server,
			p.Timestamp.Time().UTC().Format(time.RFC3339), unit)
	}
	return share, nil
}

// series is what Prometheus has of one server.
type series struct {
	server cluster.ServerID
	values []model.SamplePair
}

// ask runs one query and splits the answer by server.
func (r *reader) ask(ctx context.Context, query string, within v1.Range) ([]series, error) {
	answer, _, err := r.api.QueryRange(ctx, query, within)
	var refused *v1.Error
	switch {
	case errors.As(err, &refused) && refused.Type == v1.ErrBadData:
		return nil, input.Errorf(r.URL, "the query %q is refused: %s", query, refused.Msg)
	case err != nil:
		return nil, fmt.Errorf("prometheus: query %q at %s: %w", query, r.URL, err)
	}
	matrix, ok := answer.(model.Matrix)
	if !ok {
		return nil, input.Errorf(r.URL, "the query %q gives a %s, not series over time", query, answer.Type())
	}
	var all []series
	seen := map[cluster.ServerID]model.Metric{}
	for _, stream := range matrix {
		server := cluster.ServerID(stream.Metric[model.LabelName(r.Label)])
		if server == "" {
			return nil, input.Errorf(r.URL, "the query %q gives the series %s, which has no label %q to name the server", query, stream.Metric, r.Label)
		}
		if err := history.CheckName(string(server)); err != nil {
			return nil, input.Errorf(r.URL, "%v", err)
		}
		if twin, ok := seen[server]; ok {
			return nil, input.Errorf(r.URL, "the query %q gives two series for the server %q, %s and %s: aggregate it by (%s)", query, server, twin, stream.Metric, r.Label)
		}
		if len(stream.Histograms) > 0 {
			return nil, input.Errorf(r.URL, "the query %q gives a histogram for the server %q", query, server)
		}
		seen[server] = stream.Metric
		all = append(all, series{server, stream.Values})
	}
	return all, nil
}

// memory gives the memory of every server by moment. Both queries are asked for
// the same moments, so the times are equal.
func (r *reader) memory(ctx context.Context, within v1.Range) (map[cluster.ServerID]map[model.Time]model.SampleValue, error) {
	all, err := r.ask(ctx, r.Mem, within)
	if err != nil {
		return nil, err
	}
	out := map[cluster.ServerID]map[model.Time]model.SampleValue{}
	for _, one := range all {
		at := map[model.Time]model.SampleValue{}
		for _, pair := range one.values {
			at[pair.Timestamp] = pair.Value
		}
		out[one.server] = at
	}
	return out, nil
}
