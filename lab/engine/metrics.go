package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Metrics asks an engine for its metrics in the format of Prometheus, and returns those
// without labels.
func Metrics(ctx context.Context, url string) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("engine: metrics: %w", err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("engine: metrics: %w", err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("engine: metrics: %s", reply.Status)
	}
	return readMetrics(reply.Body)
}

func readMetrics(from io.Reader) (map[string]float64, error) {
	all, err := readSamples(from)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, s := range all {
		if s.labels == "" {
			out[s.name] = s.value
		}
	}
	return out, nil
}

// Samples are metrics with their labels.
type Samples []sample

type sample struct {
	name, labels string // labels as they are written: verb="LIST",code="200"
	value        float64
}

// Sum adds up a metric over all labels but those that hold one of the texts, such as
// verb="WATCH".
func (all Samples) Sum(name string, without ...string) (sum float64) {
	for _, s := range all {
		if s.name == name && !slices.ContainsFunc(without, func(text string) bool { return strings.Contains(s.labels, text) }) {
			sum += s.value
		}
	}
	return sum
}

// Mean is the mean of a histogram in milliseconds, over the same labels as of Sum.
func (all Samples) Mean(name string, without ...string) float64 {
	return 1e3 * all.Sum(name+"_sum", without...) / max(all.Sum(name+"_count", without...), 1)
}

// readSamples reads metrics in the format of Prometheus. A label may have blanks in it, but
// the value behind the last brace has none.
func readSamples(from io.Reader) (Samples, error) {
	var out Samples
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, '}')
		key, text, _ := strings.Cut(line[at+1:], " ")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, _ := strings.Cut(line[:at+1]+key, "{")
		out = append(out, sample{name, strings.TrimSuffix(labels, "}"), v})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("engine: metrics: %w", err)
	}
	return out, nil
}
