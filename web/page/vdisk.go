package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"gleaner/fabric"
	"gleaner/input"
)

// vdiskData is what the view of a vDisk shows.
type vdiskData struct {
	fabric.Stat
	Says   []string // how its replicas are kept apart
	Counts []groupCount
	Tiers  []tierCount
	Long   bool // it is too large to count its groups here
}

// A groupCount is how many of its groups are in a state, or have so many good replicas.
type groupCount struct {
	What   string
	Groups int
}

// A tierCount is what is on one tier.
type tierCount struct {
	Tier     string
	Replicas int
	Bytes    int64
}

// countedWithin is how long a view waits for the groups of a vDisk to be counted.
const countedWithin = 5 * time.Second

func (s *Site) vdisk(w http.ResponseWriter, r *http.Request) {
	name, disks := r.PathValue("name"), s.Disks()
	if disks == nil {
		missing(w, "No disks are served by this gleaner now.")
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), countedWithin)
	defer stop()
	stat, err := disks.Stat(ctx, name)
	d := vdiskData{Stat: stat, Says: placed(stat.Placement)}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.Long, d.Name = true, name
	case input.Is(err):
		missing(w, "There is no vDisk and no snapshot "+name+".")
		return
	case err != nil:
		failed(w, err)
		return
	}
	for _, state := range slices.Sorted(maps.Keys(stat.States)) {
		d.Counts = append(d.Counts, groupCount{state, stat.States[state]})
	}
	for _, have := range slices.Sorted(maps.Keys(stat.Have)) {
		d.Counts = append(d.Counts, groupCount{"with " + count(have, "good replica"), stat.Have[have]})
	}
	for _, tier := range slices.Sorted(maps.Keys(stat.Tiers)) {
		d.Tiers = append(d.Tiers, tierCount{tier, stat.Tiers[tier], stat.Bytes[tier]})
	}
	show(w, http.StatusOK, "vdisk", view{Title: name, At: "/storage", Data: d})
}

// Whole says whether all of it is there, on as many replicas as were asked for.
func (d vdiskData) Whole() string {
	few := 0
	for have, groups := range d.Have {
		if have < d.Replicas {
			few += groups
		}
	}
	lost, broken := d.States[fabric.OutOfReach], d.States[fabric.Damaged]
	switch {
	case broken > 0:
		return fmt.Sprintf("%d of %s lost some of what was written, and no other replica is there to mend from. 'gleaner disk check' names them.", broken, count(d.Groups, "group"))
	case d.Groups == 0 && len(d.Chain) > 0:
		return "Nothing was written to it since it reads through " + d.Chain[0] + "."
	case d.Groups == 0:
		return "Nothing is written to it yet."
	case lost > 0:
		return fmt.Sprintf("%d of %s cannot be read now: the disks that hold the replicas are away.", lost, count(d.Groups, "group"))
	case few > 0 && d.Servers < d.Replicas:
		return fmt.Sprintf("All of it can be read. %d of %s lack some of the %d replicas that are wanted: each is to be on another server, and %s can hold some.", few, count(d.Groups, "group"), d.Replicas, count(d.Servers, "server"))
	case few > 0:
		return fmt.Sprintf("All of it can be read. %d of %s lack some of the %d replicas that are wanted; upkeep makes them.", few, count(d.Groups, "group"), d.Replicas)
	}
	return "Whole: every group of its own has as many good replicas as are wanted."
}
