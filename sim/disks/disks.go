// Package disks simulates storage devices in virtual time. A device serves one
// request after the other in order of arrival, each in size/rate + gap (FAST'12
// §3.2), so that a request's latency is its service and the wait behind others.
//
// The gap is charged to every request: the model of FAST'12 knows averages for
// random access, and a device shared by several sections is accessed at random even
// if each of them reads on.
package disks

import (
	"fmt"
	"time"
)

// A Kind is a sort of device.
type Kind struct {
	Name                string
	Capacity            int64   // bytes
	ReadRate, WriteRate float64 // bytes a second
	ReadGap, WriteGap   time.Duration
}

// The devices of Table 1 of FAST'12. Its gaps are one over its operations a second.

// HDD is a disk of 7,200 rotations a minute.
func HDD() Kind {
	return Kind{"7.2K disk", 500e9, 90e6, 90e6, 8 * time.Millisecond, 8 * time.Millisecond}
}

// FastHDD is a disk of 15,000 rotations a minute.
func FastHDD() Kind {
	return Kind{"15K disk", 146e9, 150e6, 150e6, time.Second / 285, time.Second / 285}
}

// SSD is a solid-state disk.
func SSD() Kind {
	return Kind{"SSD", 32e9, 250e6, 80e6, 400 * time.Microsecond, time.Millisecond}
}

// Service is how long a request takes once it is its turn.
func (k Kind) Service(size int64, write bool) time.Duration {
	rate, gap := k.ReadRate, k.ReadGap
	if write {
		rate, gap = k.WriteRate, k.WriteGap
	}
	return gap + time.Duration(float64(size)/rate*float64(time.Second))
}

// A Disk is one device and its queue.
type Disk struct {
	Kind Kind
	Used int64 // bytes; see Take and Give

	Reads, Writes         int64 // requests
	ReadBytes, WriteBytes int64
	Busy                  time.Duration // time spent serving

	arrived time.Duration // the last request
	free    time.Duration // when all that arrived are served
}

// Do adds a request that arrives at a time, none before the last, and returns when
// it is served.
func (d *Disk) Do(at time.Duration, size int64, write bool) time.Duration {
	if at < d.arrived {
		panic(fmt.Sprintf("disks: a request of %v after one of %v", at, d.arrived))
	}
	service := d.Kind.Service(size, write)
	d.arrived = at
	d.free = max(d.free, at) + service
	d.Busy += service
	if write {
		d.Writes, d.WriteBytes = d.Writes+1, d.WriteBytes+size
	} else {
		d.Reads, d.ReadBytes = d.Reads+1, d.ReadBytes+size
	}
	return d.free
}

// Backlog is how long a request that arrives at a time would wait.
func (d *Disk) Backlog(at time.Duration) time.Duration { return max(0, d.free-at) }

// Take uses space, if there is that much.
func (d *Disk) Take(size int64) bool {
	if d.Used+size > d.Kind.Capacity {
		return false
	}
	d.Used += size
	return true
}

// Give frees space that was taken.
func (d *Disk) Give(size int64) {
	if size > d.Used {
		panic(fmt.Sprintf("disks: %d bytes freed of %d used", size, d.Used))
	}
	d.Used -= size
}
