// Package examples holds the paper's three applications and its Table 1 as
// specifications, which say what is published and what is assumed, and commented
// documents to start a plan from, and a list of shapes to rent.
package examples

import (
	"embed"
	"io/fs"

	"gleaner/plan"
	"gleaner/plan/spec"
)

//go:embed *.xml catalogue.csv
var files embed.FS

// Names lists the files.
func Names() []string {
	names, err := fs.Glob(files, "*.xml")
	if err != nil {
		panic(err) // the pattern is fixed
	}
	return append(names, "catalogue.csv")
}

// Read returns the text of a file.
func Read(name string) ([]byte, error) { return files.ReadFile(name) }

//go:embed new/*.yaml
var start embed.FS

// New lists the documents to start from.
func New() []string { return []string{"app.yaml", "hardware.yaml", "sla.yaml"} }

// ReadNew returns the text of a document to start from.
func ReadNew(name string) ([]byte, error) { return start.ReadFile("new/" + name) }

// Load reads three of the files as the input of a plan.
func Load(app, hardware, sla string) (plan.Input, error) {
	var in plan.Input
	text, err := Read(app)
	if err != nil {
		return in, err
	}
	if in.App, err = spec.ReadApplication(app, text); err != nil {
		return in, err
	}
	if text, err = Read(hardware); err != nil {
		return in, err
	}
	if in.HW, err = spec.ReadHardware(hardware, text); err != nil {
		return in, err
	}
	if text, err = Read(sla); err != nil {
		return in, err
	}
	in.SLA, err = spec.ReadSLA(sla, text, in.App)
	return in, err
}
