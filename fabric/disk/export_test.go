package disk

// OpenQuiet is Open without the drainer, so that a test says when the log is drained.
var OpenQuiet = openDisk

func (d *Disk) Drain() error { return d.drain() }

const (
	MinLog      = minLog
	SlicesStart = slicesStart
)
