package web

import (
	"context"
	"errors"
	"strings"

	"gleaner/curator"
	"gleaner/fabric"
	"gleaner/input"
)

// A CurateReport is the answer to POST /api/v1/disks/scan: what was found, and what became of it.
type CurateReport struct {
	fabric.ScanReport
	Outcome []fabric.Backlog `json:"outcome"`
}

func (d *Disks) curation(ctx context.Context, _ DiskOrder) (any, error) { return d.Front.Curation(ctx) }

func (d *Disks) scan(ctx context.Context, o DiskOrder) (any, error) {
	report, outcome, err := d.Front.Scan(ctx, o.Jobs...)
	return CurateReport{report, outcome}, explain(err)
}

func (d *Disks) plan(ctx context.Context, o DiskOrder) (any, error) {
	p, err := d.Front.Plan(ctx, o.Jobs...)
	return p, explain(err)
}

func (d *Disks) pause(ctx context.Context, o DiskOrder) (any, error) {
	if strings.TrimSpace(o.Why) == "" {
		return nil, input.Fieldf("why", "a pause needs a reason")
	}
	if err := d.Front.Pause(ctx, o.Why); err != nil {
		return nil, err
	}
	return d.Front.Curation(ctx)
}

func (d *Disks) resume(ctx context.Context, _ DiskOrder) (any, error) {
	if err := d.Front.Resume(ctx); err != nil {
		return nil, err
	}
	return d.Front.Curation(ctx)
}

// explain says what a user can do about a pause.
func explain(err error) error {
	if errors.Is(err, curator.ErrPaused) {
		return &input.Error{Msg: strings.TrimPrefix(err.Error(), "curator: ") + "; see 'gleaner curate resume'", Err: err}
	}
	return err
}
