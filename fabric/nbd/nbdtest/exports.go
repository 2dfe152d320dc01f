// Package nbdtest has what tests of devices need: plain ones to serve, bytes in memory
// and a file, and a suite that every nbd.Device passes.
package nbdtest

import (
	"context"

	"gleaner/fabric/nbd"
)

// An Offer is a device with what is said of it.
type Offer struct {
	nbd.Export
	Device nbd.Device
}

// Exports offers devices that are there already. The first is the default.
type Exports []Offer

// List gives all of them.
func (e Exports) List(context.Context) ([]nbd.Export, error) {
	var list []nbd.Export
	for _, o := range e {
		list = append(list, o.Export)
	}
	return list, nil
}

// Find gives the export of a name.
func (e Exports) Find(_ context.Context, name string) (nbd.Export, error) {
	o, err := e.offer(name)
	return o.Export, err
}

// Open gives the device of a name.
func (e Exports) Open(_ context.Context, name string) (nbd.Device, error) {
	o, err := e.offer(name)
	return o.Device, err
}

func (e Exports) offer(name string) (Offer, error) {
	for _, o := range e {
		if o.Name == name || name == "" {
			return o, nil
		}
	}
	return Offer{}, nbd.ErrUnknown
}
