package disk

// A Mask is a set of a group's slices.
type Mask [SlicesPerGroup / 64]uint64

// Has reports whether a slice, from 0 to SlicesPerGroup-1, is in the set.
func (m *Mask) Has(slice int) bool { return m[slice/64]>>(slice%64)&1 != 0 }

// Add takes a slice into the set.
func (m *Mask) Add(slice int) { m[slice/64] |= 1 << (slice % 64) }

// A Sum is what a disk knows of a slice without reading it. Two replicas hold the
// same where their sums are equal and have no Condition.
type Sum struct {
	Written   bool      // ever; else the slice is zeros
	Condition Condition // why the slice cannot be read; 0 if it is not known to be bad
	CRC32C    uint32    // of the slice, where it is written and has no condition
}

// Sums gives what is known of each slice of a group, so that replicas can be compared
// without reading them. That a slice has rotted since it was written only a read or Verify finds.
func (d *Disk) Sums(id GroupID, generation uint64) ([]Sum, error) {
	sums := make([]Sum, SlicesPerGroup)
	err := d.reading(id, generation, func(g *group) error {
		versions := d.index.of(id)
		for slice := range sums {
			sums[slice] = current(g, versions, slice).public()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sums, nil
}

func (e entry) public() Sum {
	switch e.state {
	case never:
		return Sum{}
	case torn:
		return Sum{Written: true, Condition: Torn}
	case rotten:
		return Sum{Written: true, Condition: Rotten}
	}
	return Sum{Written: true, CRC32C: e.sum}
}

// Written gives the slices of a group that were ever written.
func (d *Disk) Written(id GroupID, generation uint64) (Mask, error) {
	var mask Mask
	err := d.reading(id, generation, func(g *group) error {
		versions := d.index.of(id)
		for slice := range SlicesPerGroup {
			if current(g, versions, slice).state != never {
				mask.Add(slice)
			}
		}
		return nil
	})
	return mask, err
}

// CRC32C is the checksum of slices.
func CRC32C(data []byte) uint32 { return checksum(data) }
