package fabric

import (
	"context"

	"gleaner/cluster"
	"gleaner/fabric/disk"
)

// ScrubAll reads all that is stored once, without waiting for its time.
var ScrubAll = (*Front).scrubAll

// Discard drops a replica as if it had been found to be damaged.
func Discard(ctx context.Context, f *Front, group disk.GroupID, on cluster.DiskID) {
	f.discard(ctx, damage{group, on})
}
