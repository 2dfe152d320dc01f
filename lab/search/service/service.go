// Package service is the search service: bleve over a generated corpus, which answers over HTTP on
// loopback. It replaces the Lucene of OSDI'16 §6.1.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/mapping"

	"gleaner/lab/search"
)

const (
	field   = "body"
	best    = 10  // hits of an answer
	typos   = 1   // in a word, that are forgiven
	batch   = 500 // documents indexed at once
	laxness = 400 // GOGC: the heap is small beside the index, which is mapped from files
)

// Build indexes the corpus in dir, which must not exist.
func Build(dir string, c search.Corpus) error {
	index, err := bleve.New(dir, indexed())
	if err != nil {
		return fmt.Errorf("search: build %s: %w", dir, err)
	}
	n, pending := 0, index.NewBatch()
	flush := func() error {
		defer pending.Reset()
		return index.Batch(pending)
	}
	err = c.Each(func(body string) error {
		if err := pending.Index(strconv.Itoa(n), map[string]string{field: body}); err != nil {
			return err
		}
		if n++; n%batch == 0 {
			return flush()
		}
		return nil
	})
	if err = errors.Join(err, flush(), index.Close()); err != nil {
		return fmt.Errorf("search: build %s: %w", dir, err)
	}
	return nil
}

// indexed maps only what queries need.
func indexed() mapping.IndexMapping {
	body := bleve.NewTextFieldMapping()
	body.Store, body.IncludeTermVectors, body.IncludeInAll, body.DocValues = false, false, false, false
	m := bleve.NewIndexMapping()
	m.DefaultMapping = bleve.NewDocumentStaticMapping()
	m.DefaultMapping.AddFieldMappingsAt(field, body)
	return m
}

// An Answer is the service's answer to a query.
type Answer struct {
	Total uint64   `json:"total"`
	Hits  []string `json:"hits"` // documents, best first
}

// Serve answers queries to the index in dir, at an address of this machine, until ctx is done or in ends, as it does
// when the process that started the service is gone. The first line it writes to out
// is where it answers.
func Serve(ctx context.Context, dir, address string, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(laxness)
	index, err := bleve.OpenUsing(dir, map[string]any{"read_only": true})
	if err != nil {
		return fmt.Errorf("search: open %s: %w", dir, err)
	}
	defer index.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	server := &http.Server{Handler: answering(index), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("search: %w", err)
	}
	return nil
}

func answering(index bleve.Index) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := bleve.NewMatchQuery(r.URL.Query().Get("q"))
		query.SetField(field)
		query.SetFuzziness(typos)
		result, err := index.SearchInContext(r.Context(), bleve.NewSearchRequestOptions(query, best, 0, false))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer := Answer{Total: result.Total, Hits: []string{}}
		for _, hit := range result.Hits {
			answer.Hits = append(answer.Hits, hit.ID)
		}
		_ = json.NewEncoder(w).Encode(answer) // it fails only if the client has gone
	})
}
