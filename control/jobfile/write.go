package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"gleaner/cluster"
)

// ErrNotText is returned by Write if a job has a text that is not UTF-8, which no
// job file can hold.
var ErrNotText = errors.New("is not UTF-8, and so cannot be part of a job")

// Write writes a job as a job file from which Read reads the same job. What is not
// part of job files is left out: its number, the jobs it comes after, what was
// learned of it.
func Write(job *cluster.Job) ([]byte, error) {
	w := writer{}
	w.text("name", job.Name)
	if job.Time > 0 {
		w.field("time", job.Time.String())
	}
	if job.Priority != 0 {
		w.field("priority", strconv.Itoa(job.Priority))
	}
	w.out.WriteString("stages:\n")
	for i := range job.Stages {
		w.stage(&job.Stages[i])
	}
	return w.out.Bytes(), w.err
}

type writer struct {
	out bytes.Buffer
	err error
}

func (w *writer) stage(st *cluster.Stage) {
	w.text("- name", st.Name)
	w.field("  cpu", strconv.FormatFloat(float64(st.Request.CPU)/float64(cluster.Core), 'f', -1, 64))
	w.field("  memory", fmt.Sprintf("%dB", st.Request.Memory))
	switch {
	case st.Each != nil:
		w.texts("  each", st.Each)
	case st.Array != cluster.Array{}:
		last := st.Array.First + (st.Tasks-1)*st.Array.Step
		w.field("  array", fmt.Sprintf("%d-%d:%d", st.Array.First, last, st.Array.Step))
	default:
		w.field("  tasks", strconv.Itoa(st.Tasks))
	}
	w.texts("  command", st.Command)
	if st.After != nil {
		w.texts("  after", st.After)
	}
	if st.Dir != "" {
		w.text("  dir", st.Dir)
	}
	if st.Processes > 0 {
		w.field("  processes", strconv.Itoa(st.Processes))
	}
	if st.Output > 0 {
		w.field("  output", fmt.Sprintf("%dB", st.Output))
	}
	if st.Time > 0 {
		w.field("  time", st.Time.String())
	}
	if st.Grace > 0 {
		w.field("  grace", st.Grace.String())
	}
	if st.Failures > 0 {
		w.field("  retries", strconv.Itoa(st.Failures-1))
	}
	if st.KeepGoing {
		w.field("  keep_going", "true")
	}
	if st.Env != nil {
		w.field("  env", "")
	}
	for _, variable := range st.Env {
		name, value, _ := strings.Cut(variable, "=")
		w.text("    "+w.quoted(name), value)
	}
}

func (w *writer) field(name, value string) { fmt.Fprintf(&w.out, "%s: %s\n", name, value) }
func (w *writer) text(name, value string)  { w.field(name, w.quoted(value)) }

func (w *writer) texts(name string, values []string) {
	w.field(name, "")
	for _, value := range values {
		fmt.Fprintf(&w.out, "    - %s\n", w.quoted(value))
	}
}

// quoted is a text as YAML writes it between double quotes: in ASCII, with the
// escapes of Go, all of which YAML has too.
func (w *writer) quoted(text string) string {
	if !utf8.ValidString(text) && w.err == nil {
		w.err = fmt.Errorf("%q %w", text, ErrNotText)
	}
	return strconv.QuoteToASCII(text)
}
