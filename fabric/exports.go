package fabric

import (
	"context"
	"errors"

	"gleaner/fabric/maps"
	"gleaner/fabric/nbd"
	"gleaner/fabric/volume"
)

// Exports offers every vDisk and snapshot by NBD.
func (f *Front) Exports() nbd.Exports { return exports{f} }

type exports struct{ front *Front }

func (e exports) List(ctx context.Context) (all []nbd.Export, err error) {
	for v, err := range e.front.maps.Names(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, export(v))
	}
	return all, nil
}

// export describes a vDisk. A flush on one connection covers all, so a client may use several.
func export(v maps.VDisk) nbd.Export {
	return nbd.Export{Name: v.Name, Size: v.Size, ReadOnly: v.Snapshot, MultiConn: true}
}

func (e exports) Find(ctx context.Context, name string) (nbd.Export, error) {
	v, err := e.front.maps.Find(ctx, name)
	if errors.Is(err, maps.ErrNotFound) {
		return nbd.Export{}, nbd.ErrUnknown
	}
	return export(v), err
}

func (e exports) Open(ctx context.Context, name string) (nbd.Device, error) {
	v, err := e.front.use(ctx, name)
	if errors.Is(err, maps.ErrNotFound) {
		return nil, nbd.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return device{v, e.front, name}, nil
}

// A device is a volume as NBD sees it.
type device struct {
	*volume.Volume
	front *Front
	name  string
}

func (d device) Status(ctx context.Context, offset, length int64, most int) ([]nbd.BlockStatus, error) {
	runs, err := d.Volume.Status(ctx, offset, length, most)
	if err != nil {
		return nil, err
	}
	var all []nbd.BlockStatus
	for _, r := range runs {
		all = append(all, nbd.BlockStatus{Length: r.Length, Hole: !r.Stored, Zero: !r.Stored})
	}
	return all, nil
}

func (d device) Close() error { return d.front.leave(d.name) }
