package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
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
	out := map[string]float64{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.Contains(name, "{") {
			out[name] = v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("engine: metrics: %w", err)
	}
	return out, nil
}
