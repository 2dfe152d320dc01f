package fabric

import (
	"context"
	"errors"
	"slices"

	"gleaner/cluster"
	"gleaner/fabric/disk"
	"gleaner/fabric/maps"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/fabric/volume"
)

// disksNow is how full the disks are.
func (f *Front) disksNow() upkeep.View {
	f.pool.refresh()
	v := upkeep.View{Tiers: tiers, Disks: map[cluster.DiskID]upkeep.Disk{}, VDisks: map[disk.VDiskID]upkeep.VDisk{}}
	for id, d := range f.pool.all() {
		v.Disks[id] = upkeep.Disk{Tier: d.tier, Quota: d.quota, Used: d.quota - d.free, Kept: kept, Retired: f.pool.isRetired(id), Server: d.on, Within: f.pool.within(d.on)}
	}
	return v
}

// view is what jobs know beside the maps.
func (f *Front) view(ctx context.Context) (upkeep.View, error) {
	if err := f.learnRetired(ctx); err != nil {
		return upkeep.View{}, err
	}
	if _, err := f.space.KeepAccess(ctx); err != nil { // else what was just written would seem never to have been used
		return upkeep.View{}, err
	}
	v := f.curation.seen()
	v.Spare, v.Dense, v.Now = f.space.Spare(), f.curation.notWorthPacking(), tiering.PeriodOf(f.o.Now())
	for vdisk, err := range f.maps.VDisks(ctx) {
		if err != nil {
			return v, err
		}
		v.See(vdisk)
	}
	return v, nil
}

// choose gives a disk for a replica that upkeep moves. Neither server's owner may need it, and replicas stay as far apart as they are.
func (f *Front) choose(from cluster.DiskID, tier cluster.Tier, balance bool, others []cluster.DiskID) (cluster.DiskID, bool) {
	if s, here := f.pool.server(from); !here || f.pool.busy(s) {
		return "", false
	}
	if f.pool.isRetired(from) { // wherever there is room
		for _, any := range append([]cluster.Tier{tier}, tiers...) {
			if to, ok := f.pool.placeOn(any, others); ok {
				return to, true
			}
		}
		return "", false
	}
	if !balance {
		return f.pool.placeOn(tier, others)
	}
	v := f.disksNow()
	was, _, _ := f.pool.quality(append(slices.Clone(others), from))
	for _, to := range v.Targets(tier) {
		s, here := f.pool.server(to)
		now, _, _ := f.pool.quality(append(slices.Clone(others), to))
		if here && !f.pool.busy(s) && !slices.Contains(others, to) && now.Replicas >= was.Replicas && now.Environments >= was.Environments && now.Functions >= was.Functions && now.Racks >= was.Racks {
			return to, true
		}
	}
	return "", false
}

// volumes carry out tasks: a Space that opens vDisks as their users do.
type volumes struct {
	*volume.Space
	front *Front
}

// Pack packs groups, and gives ErrMoot if no space is saved.
func (v volumes) Pack(ctx context.Context, ids []disk.GroupID, form upkeep.Form) error {
	_, err := v.Space.Pack(ctx, ids, volume.Form{Level: form.Level, Data: form.Shards})
	return err
}

// Use opens a vDisk for as long as do takes. It is ErrMoot if there is none.
func (v volumes) Use(ctx context.Context, id disk.VDiskID, do func(upkeep.Volume) error) error {
	v.front.tending.Lock()
	defer v.front.tending.Unlock()
	vdisk, _, err := v.front.maps.VDisk(ctx, id)
	if err == nil && vdisk.Removed {
		err = volume.ErrMoot
	}
	if err == nil {
		err = v.front.with(ctx, vdisk.Name, func(open *volume.Volume) error { return do(open) })
	}
	if errors.Is(err, maps.ErrNotFound) {
		err = volume.ErrMoot
	}
	return err
}
