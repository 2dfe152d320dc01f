package engine

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMetrics: comments and labelled metrics are left out, samples have their labels, and a
// page that is missing is an error.
func TestMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("# HELP a all\n# TYPE a counter\na 3\nb{op=\"x\"} 4\nc 1.5e+06\nd\n"))
	}))
	defer server.Close()
	got, err := Metrics(t.Context(), server.URL+"/metrics")
	if want := map[string]float64{"a": 3, "c": 1.5e6}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	all, err := readSamples(strings.NewReader("# TYPE d histogram\nd_sum{verb=\"GET x {y} \"} 3\nd_count{verb=\"GET x {y} \"} 2\nd_sum{verb=\"WATCH\"} 100\nd_count{verb=\"WATCH\"} 1\nin{kind=\"a\"} 4\nin{kind=\"b\"} 5\nin_all 7\n"))
	if err != nil || all.Mean("d", `verb="WATCH"`) != 1500 || all.Sum("in") != 9 || all.Sum("in", `"b"`) != 4 || all.Mean("none") != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := Metrics(t.Context(), server.URL); err == nil {
		t.Error("a missing page was taken")
	}
}
