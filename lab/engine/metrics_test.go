package engine

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestMetrics: comments and labelled metrics are left out, and a page that is missing is
// an error.
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
	if _, err := Metrics(t.Context(), server.URL); err == nil {
		t.Error("a missing page was taken")
	}
}
