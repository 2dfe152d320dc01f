package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"

	"gleaner/web/page"
)

// A report is a page of its own that a command writes: no script, nothing loaded from
// elsewhere, in the style of the page.
var (
	//go:embed report.css
	reportStyle string
	//go:embed report.html
	reportFrame string
)

// saveReport writes NAME.html, from a template that defines title and main, and
// NAME.json.
func saveReport(dir, name, body string, funcs template.FuncMap, data any) error {
	all, err := template.New(name).Funcs(template.FuncMap{"style": func() template.CSS { return page.Style() + template.CSS(reportStyle) }}).Funcs(funcs).Parse(reportFrame)
	if err != nil {
		return err
	}
	if all, err = all.Parse(body); err != nil {
		return err
	}
	var html bytes.Buffer
	if err := all.ExecuteTemplate(&html, "report", data); err != nil {
		return fmt.Errorf("write %s.html: %w", name, err)
	}
	text, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return err
	}
	if err := saveTo("--out", filepath.Join(dir, name+".json"), func(w io.Writer) error { return writeAll(w, text, []byte("\n")) }); err != nil {
		return err
	}
	return saveTo("--out", filepath.Join(dir, name+".html"), func(w io.Writer) error { return writeAll(w, html.Bytes()) })
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}
