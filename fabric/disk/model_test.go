package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"gleaner/fabric/disk"
	"gleaner/fabric/disk/disktest"
)

// seeds calls check for the seeds from 1 to few, or to many with GLEANER_LONG=1, or to a fifth of few with -short,
// or for the one in GLEANER_SEED, and tells how to run one again that failed.
func seeds(t *testing.T, few, many int, check func(seed uint64) error) {
	t.Helper()
	first, last := 1, few
	if testing.Short() {
		last = max(1, few/5)
	}
	if os.Getenv("GLEANER_LONG") != "" {
		last = many
	}
	if text := os.Getenv("GLEANER_SEED"); text != "" {
		seed, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("GLEANER_SEED=%s is not a number", text)
		}
		first, last = seed, seed
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // many small worlds that live shortly
	for seed := first; seed <= last; seed++ {
		if err := check(uint64(seed)); err != nil {
			t.Fatalf("seed %d; again with: GLEANER_SEED=%d go test -run '^%s$' ./fabric/disk\n%v", seed, seed, t.Name(), err)
		}
	}
	t.Logf("seeds %d to %d", first, last)
}

// TestModel runs random operations beside a model that holds, for each slice, what it may be.
// Again and again the process is killed, the power is cut or the disk is closed, between
// operations or inside one, also while it is opened; now and then a call to the file system fails.
func TestModel(t *testing.T) {
	seeds(t, 300, 10_000, func(seed uint64) error { return newModel(seed).run() })
}

const dir = "d"

// model is a disk and what it should hold.
type model struct {
	rng   *rand.Rand
	fs    *disktest.FS
	disk  *disk.Disk
	quota int64

	groups map[disk.GroupID]*groupModel
	tokens map[disk.VDiskID][]uint64 // the highest seen; two while it is not known which
	trail  []string                  // what was done, for the report
	buf    [disk.SliceSize]byte
}

// groupModel is a group, or one that may be. Of what is not known there are several.
type groupModel struct {
	vdisk       disk.VDiskID
	there       []bool
	durable     bool // the name
	generations []uint64
	sealed      []bool
	slices      map[int]*sliceModel
}

// sliceModel is a slice: what reads give, and what a crash may make of it.
type sliceModel struct {
	latest  []byte
	flushed []byte
	pending [][]byte // written since
	unsure  [][]byte // by a write that was under way or failed
	large   bool     // some of pending or unsure in place: may tear
	torn    bool
	before  bool // it was torn when it was last flushed
}

var zeros = make([]byte, disk.SliceSize)

func (g *groupModel) slice(i int) *sliceModel {
	if g.slices[i] == nil {
		g.slices[i] = &sliceModel{latest: zeros, flushed: zeros}
	}
	return g.slices[i]
}

func newModel(seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 1))
	quota := int64(disk.MinLog) + 8<<20 + int64(rng.IntN(8<<20))
	return &model{rng: rng, quota: quota, fs: disktest.New(quota+1<<20, dir),
		groups: map[disk.GroupID]*groupModel{}, tokens: map[disk.VDiskID][]uint64{}}
}

func (m *model) run() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nafter:\n%s", err, bytes.Join(lines(m.trail), []byte("\n")))
		}
	}()
	id := disk.Identity{Cluster: "c", Disk: "d1", Tier: disk.SSD, Quota: m.quota, Log: disk.MinLog, Salt: 77}
	if err := disk.Format(m.fs, dir, id); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	for range 2 + m.rng.IntN(4) {
		if err := m.round(); err != nil {
			return err
		}
		if err := m.crash(); err != nil {
			return err
		}
	}
	return nil
}

func lines(trail []string) (out [][]byte) {
	for _, line := range trail[max(0, len(trail)-60):] {
		out = append(out, []byte(line))
	}
	return out
}

func (m *model) note(format string, args ...any) {
	m.trail = append(m.trail, fmt.Sprintf(format, args...))
}

func (m *model) open() error {
	d, err := disk.OpenQuiet(m.fs, dir, disk.Options{Cluster: "c", OpenGroups: 1 + m.rng.IntN(3)})
	m.disk = d
	return err
}

var errInjected = errors.New("injected")

// round does some operations, with a fault at some point in every other round:
// from there on all fails, as when the process is gone, or one call does.
func (m *model) round() error {
	if m.rng.IntN(2) == 0 {
		left, dead := m.rng.IntN(400), m.rng.IntN(3) > 0
		m.fs.Fault(func(op, name string) error {
			left--
			if left == 0 || left < 0 && dead {
				return errInjected
			}
			return nil
		})
	}
	defer m.fs.Fault(nil)
	for range 1 + m.rng.IntN(60) {
		failed, err := m.step()
		if err != nil {
			return err
		}
		if failed {
			return nil
		}
		if m.rng.IntN(8) == 0 {
			m.fs.WriteBack(m.rng, m.rng.IntN(101))
		}
	}
	return nil
}

// step does one operation. It says whether a fault hit it.
func (m *model) step() (failed bool, err error) {
	id := disk.GroupID(1 + m.rng.IntN(5))
	switch p := m.rng.IntN(100); {
	case p < 5 || !exists(m.groups[id]) && p < 60:
		return m.create(id)
	case p < 55:
		return m.write(id)
	case p < 75:
		return m.read(id)
	case p < 82:
		return m.sync()
	case p < 88:
		m.note("drain")
		return m.injected(m.disk.Drain())
	case p < 91:
		return m.raise(id)
	case p < 92:
		return m.seal(id)
	case p < 93:
		return m.truncate(id)
	case p < 95:
		return m.remove(id)
	case p < 97:
		return m.fence()
	default:
		return m.verify(id)
	}
}

// injected tells a fault of the test from one of the disk.
func (m *model) injected(err error) (bool, error) {
	if err == nil || errors.Is(err, errInjected) {
		return err != nil, nil
	}
	return false, err
}

func (m *model) truncate(id disk.GroupID) (bool, error) {
	g, blocks := m.groups[id], m.rng.IntN(5)
	generation, _, want := m.credentials(g)
	err := m.disk.Truncate(id, generation, blocks)
	m.note("truncate %d gen %d to %d blocks: %v", id, generation, blocks, err)
	switch {
	case errors.Is(err, errInjected):
		if exists(g) && generation == g.generations[0] {
			for i := blocks * disk.BlockSize / disk.SliceSize; i < disk.SlicesPerGroup; i++ {
				if s := g.slices[i]; s != nil {
					s.unsure = append(s.unsure, zeros)
				}
			}
		}
		return true, nil
	case !exists(g):
		return false, expect(errors.Is(err, disk.ErrNotFound), "truncated group %d, which is not there: %v", id, err)
	case generation != g.generations[0]:
		return false, expect(want(err), "truncated group %d by another generation: %v", id, err)
	case err != nil:
		return false, err
	}
	for i := blocks * disk.BlockSize / disk.SliceSize; i < disk.SlicesPerGroup; i++ {
		delete(g.slices, i)
	}
	return false, nil
}

func (m *model) create(id disk.GroupID) (bool, error) {
	g := m.groups[id]
	generation := uint64(1)
	if g != nil {
		generation = slices.Max(g.generations) + 1
	}
	vdisk := disk.VDiskID(1 + id%2)
	err := m.disk.Create(id, vdisk, generation)
	m.note("create %d: %v", id, err)
	if exists(g) {
		if errors.Is(err, errInjected) {
			return true, nil
		}
		return false, expect(errors.Is(err, disk.ErrExists), "created group %d twice: %v", id, err)
	}
	var full *disk.QuotaError
	if errors.As(err, &full) {
		return false, nil
	}
	fresh := &groupModel{vdisk: vdisk, there: []bool{true}, generations: []uint64{generation}, sealed: []bool{false}, slices: map[int]*sliceModel{}}
	if err != nil {
		fresh.there = []bool{true, false}
	}
	m.groups[id] = fresh
	return m.injected(err)
}

func exists(g *groupModel) bool { return g != nil && g.there[0] }

func (m *model) write(id disk.GroupID) (bool, error) {
	offset, n := m.part()
	data := m.bytes(n)
	sync := m.rng.IntN(6) == 0
	g := m.groups[id]
	generation, token, want := m.credentials(g)
	err := m.disk.Write(id, generation, token, offset, data, sync)
	m.note("write %d gen %d token %d at %d: %d bytes, sync %v: %v", id, generation, token, offset, n, sync, err)
	if errors.Is(err, errInjected) {
		if g != nil && token > m.tokens[g.vdisk][0] {
			m.tokens[g.vdisk] = append(m.tokens[g.vdisk], token)
		}
		if exists(g) && want == nil {
			g.change(offset, data, func(s *sliceModel, _ []byte, next []byte) { s.unsure = append(s.unsure, next) })
		}
		return true, nil
	}
	if want == nil && exists(g) && token > m.tokens[g.vdisk][0] {
		m.tokens[g.vdisk] = []uint64{token}
	}
	var full *disk.QuotaError
	if want == nil && errors.As(err, &full) {
		return false, nil
	}
	if want == nil && exists(g) && g.edgeTorn(offset, n) {
		want = is[*disk.SliceError]
	}
	if want != nil || err != nil {
		if want == nil || !want(err) {
			return false, fmt.Errorf("write gave %v", err)
		}
		if exists(g) && g.edgeTorn(offset, n) { // what comes before the torn edge may be written
			g.change(offset, data, func(s *sliceModel, _, next []byte) { s.unsure = append(s.unsure, next) })
			return m.injected(m.resolve(id, g, false))
		}
		return false, nil
	}
	g.change(offset, data, func(s *sliceModel, _, next []byte) {
		s.latest, s.torn = next, false
		s.pending = append(s.pending, next)
		if sync {
			s.flush()
		}
	})
	if sync {
		g.durable = true
	}
	return false, nil
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// credentials are mostly right; where they are not, want says what the disk has to answer.
func (m *model) credentials(g *groupModel) (generation, token uint64, want func(error) bool) {
	if !exists(g) {
		return 1, 1, func(err error) bool { return errors.Is(err, disk.ErrNotFound) }
	}
	generation = g.generations[0]
	if m.tokens[g.vdisk] == nil {
		m.tokens[g.vdisk] = []uint64{0}
	}
	token = m.tokens[g.vdisk][0]
	switch m.rng.IntN(12) {
	case 0:
		generation += uint64(m.rng.IntN(3)) - 1
		if generation != g.generations[0] {
			return generation, token, is[*disk.GenerationError]
		}
	case 1:
		token++
	case 2:
		if token > 0 && !g.sealed[0] {
			return generation, token - 1, is[*disk.FenceError]
		}
	}
	if g.sealed[0] {
		want = func(err error) bool { return errors.Is(err, disk.ErrSealed) }
	}
	return generation, token, want
}

// change calls put for each slice that data touches, with what it is and what it is to be.
func (g *groupModel) change(offset int64, data []byte, put func(s *sliceModel, old, next []byte)) {
	large := len(data) > 64<<10
	for len(data) > 0 {
		s := g.slice(int(offset / disk.SliceSize))
		next := slices.Clone(s.latest)
		n := copy(next[offset%disk.SliceSize:], data)
		put(s, s.latest, next)
		s.large = s.large || large && len(s.pending)+len(s.unsure) > 0
		offset, data = offset+int64(n), data[n:]
	}
}

func (s *sliceModel) flush() {
	s.flushed, s.pending, s.large, s.before = s.latest, nil, false, s.torn
}

// edgeTorn says whether a write begins or ends inside a torn slice.
func (g *groupModel) edgeTorn(offset int64, n int) bool {
	inside := func(at int64) bool { return at%disk.SliceSize != 0 && g.slice(int(at/disk.SliceSize)).torn }
	return inside(offset) || inside(offset+int64(n))
}

func (m *model) part() (offset int64, n int) {
	switch m.rng.IntN(10) {
	case 0, 1:
		n = 1 + m.rng.IntN(256<<10) // mostly in place
	case 2, 3:
		n = 1 + m.rng.IntN(64<<10)
	case 4:
		n = disk.SliceSize * (17 + m.rng.IntN(40))
	default:
		n = disk.SliceSize * (1 + m.rng.IntN(4))
	}
	room := int64(1 << 20)
	if m.rng.IntN(20) == 0 {
		room = disk.GroupSize
	}
	offset = m.rng.Int64N(room - int64(n) + 1)
	if m.rng.IntN(4) > 0 {
		offset = offset / disk.SliceSize * disk.SliceSize
	}
	if m.rng.IntN(2) == 0 {
		offset %= 128 << 10 // where others write as well
	}
	return offset, n
}

// bytes are a few random ones, repeated: what tells two writes apart is in every sector.
func (m *model) bytes(n int) []byte {
	var seed [61]byte
	for i := range seed {
		seed[i] = byte(m.rng.Uint32())
	}
	return bytes.Repeat(seed[:], n/len(seed)+1)[:n]
}

func (m *model) read(id disk.GroupID) (bool, error) {
	offset, n := m.part()
	g := m.groups[id]
	generation, _, _ := m.credentials(g)
	buf := make([]byte, n)
	err := m.disk.Read(id, generation, offset, buf)
	m.note("read %d at %d: %d bytes: %v", id, offset, n, err)
	if errors.Is(err, errInjected) {
		return true, nil
	}
	switch {
	case !exists(g):
		return false, expect(errors.Is(err, disk.ErrNotFound), "read of a missing group gave %v", err)
	case generation != g.generations[0]:
		return false, expect(is[*disk.GenerationError](err), "read of another generation gave %v", err)
	}
	return false, g.compare(offset, buf, err)
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// compare checks what a read of a part gave.
func (g *groupModel) compare(offset int64, buf []byte, err error) error {
	for at := offset; at < offset+int64(len(buf)); at = (at/disk.SliceSize + 1) * disk.SliceSize {
		i := int(at / disk.SliceSize)
		s := g.slice(i)
		if s.torn {
			var bad *disk.SliceError
			return expect(errors.As(err, &bad) && bad.Slice == i && bad.Condition == disk.Torn, "read of torn slice %d gave %v", i, err)
		}
		want := s.latest[at%disk.SliceSize:]
		got := buf[at-offset:]
		n := min(len(want), len(got))
		if err == nil && !bytes.Equal(want[:n], got[:n]) {
			return fmt.Errorf("slice %d reads wrong", i)
		}
	}
	return err
}

func (m *model) sync() (bool, error) {
	err := m.disk.Sync()
	m.note("sync: %v", err)
	if err == nil {
		m.flushed()
	}
	return m.injected(err)
}

func (m *model) flushed() {
	for _, g := range m.groups {
		g.durable = true
		for _, s := range g.slices {
			s.flush()
		}
	}
}

func (m *model) raise(id disk.GroupID) (bool, error) {
	g := m.groups[id]
	if !exists(g) {
		return m.injected(ignore(m.disk.Raise(id, 3), disk.ErrNotFound))
	}
	to := g.generations[0] + uint64(m.rng.IntN(3)) - 1
	err := m.disk.Raise(id, to)
	m.note("raise %d to %d: %v", id, to, err)
	switch {
	case errors.Is(err, errInjected):
		g.generations = append(g.generations, max(to, g.generations[0]))
	case to < g.generations[0]:
		return false, expect(is[*disk.GenerationError](err), "lowering a generation gave %v", err)
	case err == nil:
		g.generations = []uint64{to}
	}
	return m.injected(err)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

func (m *model) seal(id disk.GroupID) (bool, error) {
	g := m.groups[id]
	if !exists(g) {
		return m.injected(ignore(m.disk.Seal(id, 1, 9), disk.ErrNotFound))
	}
	if m.tokens[g.vdisk] == nil {
		m.tokens[g.vdisk] = []uint64{0}
	}
	err := m.disk.Seal(id, g.generations[0], m.tokens[g.vdisk][0])
	m.note("seal %d: %v", id, err)
	if err == nil {
		m.flushed()
		g.sealed = []bool{true}
	} else {
		g.sealed = append(g.sealed, true)
	}
	return m.injected(err)
}

func (m *model) remove(id disk.GroupID) (bool, error) {
	g := m.groups[id]
	if !exists(g) {
		return m.injected(ignore(m.disk.Remove(id, 99), disk.ErrNotFound))
	}
	stale := g.generations[0] - uint64(m.rng.IntN(2))
	err := m.disk.Remove(id, stale)
	m.note("remove %d: %v", id, err)
	switch {
	case errors.Is(err, errInjected):
		g.there = append(g.there, false)
	case stale < g.generations[0]:
		return false, expect(is[*disk.GenerationError](err), "a stale remove gave %v", err)
	case err == nil:
		g.there = []bool{false}
	}
	return m.injected(err)
}

func (m *model) fence() (bool, error) {
	vdisk := disk.VDiskID(1 + m.rng.IntN(2))
	if m.tokens[vdisk] == nil {
		m.tokens[vdisk] = []uint64{0}
	}
	token := m.tokens[vdisk][0] + 1
	err := m.disk.Fence(vdisk, token)
	m.note("fence %d at %d: %v", vdisk, token, err)
	if err == nil {
		m.tokens[vdisk] = []uint64{token}
	} else {
		m.tokens[vdisk] = append(m.tokens[vdisk], token)
	}
	return m.injected(err)
}

func (m *model) verify(id disk.GroupID) (bool, error) {
	bad, err := m.disk.Verify(id)
	m.note("verify %d: %v, %v", id, bad, err)
	g := m.groups[id]
	if !exists(g) {
		err = ignore(err, disk.ErrNotFound)
	}
	for _, b := range bad {
		if b.Slice == disk.Header || b.Condition != disk.Torn || !g.slice(b.Slice).torn {
			return false, b
		}
	}
	return m.injected(err)
}

// crash ends the disk in one of three ways and opens it again, now and then
// only at the second try, and compares all of it with the model.
func (m *model) crash() error {
	way := m.rng.IntN(5)
	switch {
	case way == 0:
		m.fs.Fault(nil)
		err := m.disk.Close()
		m.note("close: %v", err)
		if err != nil && !errors.Is(err, errInjected) {
			return err
		}
		if err == nil {
			m.flushed()
		}
		m.fs = m.fs.Kill()
	case way == 1:
		m.note("kill")
		m.fs = m.fs.Kill()
	default:
		percent := []int{0, 20, 50, 80, 100}[m.rng.IntN(5)]
		m.note("power cut, %d%% kept", percent)
		m.fs = m.fs.Cut(m.rng, percent)
	}
	cut := way > 1
	if m.rng.IntN(3) == 0 {
		left := m.rng.IntN(60)
		m.fs.Fault(func(op, name string) error {
			if left--; left < 0 {
				return errInjected
			}
			return nil
		})
		err := m.open()
		m.note("open with a fault: %v", err)
		if err != nil && !errors.Is(err, errInjected) {
			return err
		}
		if m.rng.IntN(2) == 0 {
			m.fs, cut = m.fs.Cut(m.rng, m.rng.IntN(101)), true
			m.note("power cut")
		} else {
			m.fs = m.fs.Kill()
		}
	}
	if err := m.open(); err != nil {
		return err
	}
	m.note("opened")
	return m.resolveAll(cut)
}

// resolveAll compares the disk with what it may be, and notes what it is.
func (m *model) resolveAll(cut bool) error {
	found, listed := map[disk.GroupID]bool{}, 0
	err := m.disk.List(func(id disk.GroupID) error {
		listed++
		_, err := m.disk.Stat(id)
		found[id] = !errors.Is(err, disk.ErrNotFound)
		return nil
	})
	if err != nil {
		return err
	}
	used := int64(8<<10 + disk.MinLog)
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		used += max(0, m.fs.Size(dir+"/groups/"+id.String()))
		may := slices.Contains(g.there, found[id]) || cut && g.there[0] && !g.durable && !found[id]
		if !may {
			return fmt.Errorf("group %d: there is %v, may be %v", id, found[id], g.there)
		}
		g.there = []bool{found[id]}
		if !found[id] {
			continue
		}
		if err := m.resolve(id, g, cut); err != nil {
			return fmt.Errorf("group %d: %w", id, err)
		}
	}
	if u := m.disk.Usage(); u.Used != used || u.Groups != listed {
		return fmt.Errorf("usage %+v, the files take %d in %d groups", u, used, listed)
	}
	m.flushed() // Open drains and syncs all
	return m.resolveTokens()
}

func (m *model) resolve(id disk.GroupID, g *groupModel, cut bool) error {
	info, err := m.disk.Stat(id)
	if err != nil {
		return err
	}
	if !slices.Contains(g.generations, info.Generation) || !slices.Contains(g.sealed, info.Sealed) || info.VDisk != g.vdisk {
		return fmt.Errorf("is %+v, may be generation %v, sealed %v", info, g.generations, g.sealed)
	}
	g.generations, g.sealed, g.durable = []uint64{info.Generation}, []bool{info.Sealed}, true
	for _, i := range slices.Sorted(maps.Keys(g.slices)) {
		if err := m.resolveSlice(id, info.Generation, i, g.slices[i], cut); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) resolveSlice(id disk.GroupID, generation uint64, i int, s *sliceModel, cut bool) error {
	buf := m.buf[:]
	err := m.disk.Read(id, generation, int64(i)*disk.SliceSize, buf)
	var bad *disk.SliceError
	if errors.As(err, &bad) && bad.Condition == disk.Torn && (s.torn || cut && (s.large || s.before)) {
		if err := m.resolveTorn(id, generation, i, s); err != nil {
			return err
		}
		s.torn = true
		s.pending, s.unsure = nil, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("slice %d: %w", i, err)
	}
	may := append([][]byte{s.latest}, s.unsure...)
	if s.torn {
		may = s.unsure
	}
	if cut {
		may = append(append(may, s.flushed), s.pending...)
	}
	if !slices.ContainsFunc(may, func(b []byte) bool { return bytes.Equal(b, buf) }) {
		return fmt.Errorf("slice %d is none of the %d that it may be (torn %v)", i, len(may), s.torn)
	}
	if !bytes.Equal(s.latest, buf) {
		s.latest = bytes.Clone(buf)
		if !cut { // of a write that failed halfway: no flush has covered it
			s.pending = append(s.pending, s.latest)
		}
	}
	s.unsure, s.torn = nil, false
	return nil
}

// resolveTorn checks that each sector of a torn slice is of one of its versions.
func (m *model) resolveTorn(id disk.GroupID, generation uint64, i int, s *sliceModel) error {
	if s.torn || s.before {
		return nil // checked when it was found
	}
	buf := make([]byte, disk.SliceSize)
	if err := m.disk.Salvage(id, generation, i, buf); err != nil {
		return err
	}
	may := append(append([][]byte{s.latest, s.flushed, zeros}, s.unsure...), s.pending...)
	for at := 0; at < len(buf); at += disktest.Sector {
		in := func(b []byte) bool { return bytes.Equal(b[at:at+disktest.Sector], buf[at:at+disktest.Sector]) }
		if !slices.ContainsFunc(may, in) {
			return fmt.Errorf("sector at %d of torn slice %d was never written", at, i)
		}
	}
	return nil
}

// resolveTokens finds the highest token seen, by what a lower one is refused with.
func (m *model) resolveTokens() error {
	for _, vdisk := range slices.Sorted(maps.Keys(m.tokens)) {
		var fenced *disk.FenceError
		tokens := m.tokens[vdisk]
		highest := tokens[0]
		if tokens[0] > 0 || len(tokens) > 1 {
			err := m.disk.Fence(vdisk, 0)
			if errors.As(err, &fenced) {
				highest = fenced.Highest
			} else if err != nil || tokens[0] > 0 {
				return fmt.Errorf("token 0 of vDisk %d: %v", vdisk, err)
			}
		}
		if !slices.Contains(tokens, highest) {
			return fmt.Errorf("highest token of vDisk %d is %d, may be %v", vdisk, highest, tokens)
		}
		m.tokens[vdisk] = []uint64{highest}
	}
	return nil
}
