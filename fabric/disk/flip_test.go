package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"gleaner/fabric/disk"
)

// TestFlips flips one bit anywhere in a disk that was synced and then killed, or
// closed. What is read afterwards is right or refused: the disk as a whole, a group or a slice, and
// where a slice's own bytes in its group file were hit, that slice and no other.
func TestFlips(t *testing.T) {
	seeds(t, 300, 10_000, func(seed uint64) error {
		m, rng := newModel(seed), rand.New(rand.NewPCG(seed, 2))
		closed := rng.IntN(3) == 0
		if err := m.filled(closed); err != nil {
			return err
		}
		for range 8 {
			if err := m.flip(rng, closed); err != nil {
				return err
			}
		}
		return nil
	})
}

// filled makes a disk by random operations, all of them synced.
func (m *model) filled(closed bool) error {
	if err := disk.Format(m.fs, dir, identity(m.quota)); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	for range 40 {
		if _, err := m.step(); err != nil {
			return err
		}
	}
	if closed {
		return m.disk.Close()
	}
	return m.disk.Sync()
}

func (m *model) flip(rng *rand.Rand, closed bool) error {
	name := m.file(rng)
	bit := rng.Int64N(m.fs.Size(name) * 8)
	if rng.IntN(3) == 0 {
		bit %= 64 << 10 * 8 // where headers and tables are
	}
	world := *m
	world.fs = m.fs.Kill()
	world.fs.Flip(name, bit)
	err := world.survey(name, bit, closed)
	if err != nil {
		return fmt.Errorf("bit %d of byte %d of %s: %w", bit%8, bit/8, name, err)
	}
	return nil
}

func (m *model) file(rng *rand.Rand) string {
	names := []string{dir + "/log", dir + "/log", dir + "/identity", dir + "/fences"}
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		if exists(m.groups[id]) {
			name := dir + "/groups/" + id.String()
			names = append(names, name, name)
		}
	}
	return names[rng.IntN(len(names))]
}

// survey reads all of a disk in which one bit is wrong.
func (m *model) survey(name string, bit int64, closed bool) error {
	if err := m.open(); err != nil {
		if errors.Is(err, disk.ErrDamaged) && name != dir+"/log" {
			return nil
		}
		return fmt.Errorf("the disk as a whole is refused: %w", err)
	}
	if name == dir+"/identity" || name == dir+"/fences" {
		return errors.New("not noticed")
	}
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		if !exists(g) {
			continue
		}
		hit := name == dir+"/groups/"+id.String()
		for _, i := range slices.Sorted(maps.Keys(g.slices)) {
			buf := m.buf[:]
			err := m.disk.Read(id, g.generations[0], int64(i)*disk.SliceSize, buf)
			var bad *disk.SliceError
			switch {
			case errors.As(err, &bad):
				here := hit && bad.Slice == i && m.covers(i, bit/8)
				if !here && name != dir+"/log" {
					return fmt.Errorf("refused where nothing was hit: %w", err)
				}
			case err != nil:
				return err
			case closed && hit && m.covers(i, bit/8) && !bytes.Equal(buf, zeros):
				return fmt.Errorf("slice %d: not noticed", i)
			case !bytes.Equal(buf, g.slices[i].latest):
				return fmt.Errorf("group %s, slice %d: wrong bytes", id, i)
			}
		}
	}
	return m.disk.Close()
}

// covers says whether a byte of a group file is of a slice: its bytes, or its entry in the table.
func (m *model) covers(slice int, at int64) bool {
	own := at >= disk.SlicesStart && int(at-disk.SlicesStart)/disk.SliceSize == slice
	entry := at >= 4096 && at < disk.SlicesStart && int(at-4096)/8 == slice
	return own || entry
}
