// Package disktest is a file system in memory for tests of disks: it loses power,
// fills up, fails, rots, and does each by a seed.
//
// Pebble's vfs.NewCrashableMem has the same purpose. Its crashes go by the order of
// maps, so that a seed does not bring one back, and lose whole blocks of 4 KiB,
// so that no slice is ever torn.
package disktest

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"gleaner/fabric/disk"
)

// Sector is what reaches the disk whole or not at all.
const Sector = 512

// FS is a file system in memory. A file or an entry of a directory is durable once
// it was synced.
type FS struct {
	mu       sync.Mutex
	folders  map[string]*folder
	locked   map[string]bool
	capacity int64
	fault    func(op, name string) error
}

// folder has its entries as they are, and as a power cut leaves them.
type folder struct {
	entries, durable map[string]*node
}

// node is a file, or a mere name where it is a folder.
type node struct {
	data    pages
	durable pages
	dirty   []uint8 // by page, a bit for each sector that is not durable
	cut     int64   // what it was shortened to, and one, while that is not durable; 0 if it was not
}

// New makes an empty file system of that many bytes, with a folder dir.
func New(capacity int64, dir string) *FS {
	f := &FS{folders: map[string]*folder{}, locked: map[string]bool{}, capacity: capacity}
	f.folders[dir] = &folder{map[string]*node{}, map[string]*node{}}
	return f
}

// Fault has check asked before each operation (create, open, rename, remove, mkdir, list,
// syncdir, read, write, sync, allocate, truncate); an error of its is that of the operation, which is then not done.
func (f *FS) Fault(check func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = check
}

// begin locks the file system for an operation, unless it is to fail.
func (f *FS) begin(op, name string) error {
	f.mu.Lock()
	if f.fault == nil {
		return nil
	}
	if err := f.fault(op, name); err != nil {
		f.mu.Unlock()
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// Kill gives the file system as the end of all processes leaves it.
func (f *FS) Kill() *FS {
	return f.clone(func(n *node) *node {
		return n.copy()
	}, func(in *folder, copied map[*node]*node) *folder {
		out := &folder{map[string]*node{}, map[string]*node{}}
		for name, n := range in.entries {
			out.entries[name] = copied[n]
		}
		for name, n := range in.durable {
			out.durable[name] = copied[n]
		}
		return out
	})
}

// Cut gives the file system as a power cut leaves it: what is durable, and of what is not
// about so many percent.
func (f *FS) Cut(rng *rand.Rand, percent int) *FS {
	return f.clone(func(n *node) *node {
		n = n.copy()
		n.writeBack(rng, percent)
		return &node{data: n.durable, durable: n.durable.copy()}
	}, func(in *folder, copied map[*node]*node) *folder {
		out := map[string]*node{}
		for _, name := range in.names() {
			from := in.durable
			if rng.IntN(100) < percent {
				from = in.entries
			}
			if n, ok := from[name]; ok {
				out[name] = copied[n]
			}
		}
		return &folder{out, maps.Clone(out)}
	})
}

// clone copies every node, in a fixed order, and then the folders.
func (f *FS) clone(node1 func(*node) *node, folder1 func(*folder, map[*node]*node) *folder) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	copied := map[*node]*node{}
	for _, dir := range slices.Sorted(maps.Keys(f.folders)) {
		in := f.folders[dir]
		for _, name := range in.names() {
			for _, n := range []*node{in.entries[name], in.durable[name]} {
				if n != nil && copied[n] == nil {
					copied[n] = node1(n)
				}
			}
		}
	}
	out := &FS{folders: map[string]*folder{}, locked: map[string]bool{}, capacity: f.capacity}
	for _, dir := range slices.Sorted(maps.Keys(f.folders)) {
		out.folders[dir] = folder1(f.folders[dir], copied)
	}
	return out
}

func (in *folder) names() []string {
	all := maps.Clone(in.entries)
	maps.Copy(all, in.durable)
	return slices.Sorted(maps.Keys(all))
}

// WriteBack makes about so many percent of what is not durable so, as a kernel does at its leisure.
func (f *FS) WriteBack(rng *rand.Rand, percent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range slices.Sorted(maps.Keys(f.folders)) {
		in := f.folders[dir]
		for _, name := range slices.Sorted(maps.Keys(in.entries)) {
			in.entries[name].writeBack(rng, percent)
		}
	}
}

func (n *node) copy() *node {
	return &node{n.data.copy(), n.durable.copy(), slices.Clone(n.dirty), n.cut}
}

func (n *node) truncate(size int64) {
	if size >= n.data.size {
		return
	}
	n.data.truncate(size)
	n.dirty = n.dirty[:min(len(n.dirty), len(n.data.list))]
	if n.cut == 0 || size < n.cut-1 {
		n.cut = size + 1
	}
}

// hardenCut makes it durable that the file was shortened.
func (n *node) hardenCut() {
	if n.cut > 0 {
		n.durable.truncate(n.cut - 1)
		n.cut = 0
	}
}

func (n *node) write(buf []byte, at int64) {
	n.data.write(buf, at)
	for sector := int(at) / Sector; sector*Sector < int(at)+len(buf); sector++ {
		for sector/sectors >= len(n.dirty) {
			n.dirty = append(n.dirty, 0)
		}
		n.dirty[sector/sectors] |= 1 << (sector % sectors)
	}
}

func (n *node) writeBack(rng *rand.Rand, percent int) {
	if n.cut > 0 && rng.IntN(100) < percent {
		n.hardenCut()
	}
	for page, dirty := range n.dirty {
		for sector := range sectors {
			if dirty&(1<<sector) != 0 && rng.IntN(100) < percent {
				n.harden(page*sectors + sector)
			}
		}
	}
}

// harden makes a sector durable.
func (n *node) harden(sector int) {
	var buf [Sector]byte
	at := int64(sector) * Sector
	if at >= n.cut-1 { // it was written after that
		n.hardenCut()
	}
	got := n.data.read(buf[:], at)
	n.durable.extend(at + int64(got))
	n.durable.write(buf[:got], at)
	n.dirty[sector/sectors] &^= 1 << (sector % sectors)
}

// sync makes all of a file durable.
func (n *node) sync() {
	n.hardenCut()
	n.durable.extend(n.data.size)
	for page, dirty := range n.dirty {
		if dirty != 0 {
			n.durable.list[page] = n.data.list[page]
		}
	}
	clear(n.dirty)
}

// Flip flips a bit of a file, for good.
func (f *FS) Flip(name string, bit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(name)
	for _, p := range []*pages{&n.data, &n.durable} {
		var b [1]byte
		if p.read(b[:], bit/8) == 1 {
			b[0] ^= 1 << (bit % 8)
			p.write(b[:], bit/8)
		}
	}
}

// Size is how long a file is, and -1 if it is not there.
func (f *FS) Size(name string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(name)
	if n == nil {
		return -1
	}
	return n.data.size
}

func (f *FS) find(name string) *node {
	in := f.folders[filepath.Dir(name)]
	if in == nil {
		return nil
	}
	return in.entries[filepath.Base(name)]
}

func (f *FS) used() int64 {
	var sum int64
	for _, in := range f.folders {
		for _, n := range in.entries {
			sum += n.data.size
		}
	}
	return sum
}

func (f *FS) Create(name string) (disk.File, error) {
	if err := f.begin("create", name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	in := f.folders[filepath.Dir(name)]
	if in == nil {
		return nil, missing("create", name)
	}
	if f.find(name) != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	n := &node{}
	in.entries[filepath.Base(name)] = n
	return &file{f, name, n}, nil
}

func (f *FS) Open(name string) (disk.File, error) {
	if err := f.begin("open", name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	n := f.find(name)
	if n == nil {
		return nil, missing("open", name)
	}
	return &file{f, name, n}, nil
}

func missing(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

func (f *FS) Rename(from, to string) error {
	if err := f.begin("rename", from); err != nil {
		return err
	}
	defer f.mu.Unlock()
	n := f.find(from)
	if n == nil {
		return missing("rename", from)
	}
	delete(f.folders[filepath.Dir(from)].entries, filepath.Base(from))
	f.folders[filepath.Dir(to)].entries[filepath.Base(to)] = n
	return nil
}

func (f *FS) Remove(name string) error {
	if err := f.begin("remove", name); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.find(name) == nil {
		return missing("remove", name)
	}
	delete(f.folders[filepath.Dir(name)].entries, filepath.Base(name))
	return nil
}

// Mkdir makes a folder. That it is there is not lost, to keep this small; what is in it is.
func (f *FS) Mkdir(name string) error {
	if err := f.begin("mkdir", name); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.folders[name] != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	in, n := f.folders[filepath.Dir(name)], &node{}
	in.entries[filepath.Base(name)], in.durable[filepath.Base(name)] = n, n
	f.folders[name] = &folder{map[string]*node{}, map[string]*node{}}
	return nil
}

func (f *FS) List(dir string, visit func(name string) error) error {
	if err := f.begin("list", dir); err != nil {
		return err
	}
	in := f.folders[dir]
	if in == nil {
		f.mu.Unlock()
		return missing("list", dir)
	}
	names := slices.Sorted(maps.Keys(in.entries))
	f.mu.Unlock()
	for _, name := range names {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

func (f *FS) SyncDir(dir string) error {
	if err := f.begin("syncdir", dir); err != nil {
		return err
	}
	defer f.mu.Unlock()
	f.folders[dir].durable = maps.Clone(f.folders[dir].entries)
	return nil
}

func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locked[name] {
		return nil, fmt.Errorf("lock %s: %w", name, disk.ErrInUse)
	}
	f.locked[name] = true
	return unlock(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.locked, name)
	}), nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }

func (f *FS) Free(string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.capacity - f.used(), nil
}

// file is an open one; it keeps its node when the name is gone.
type file struct {
	fs   *FS
	name string
	node *node
}

func (o *file) Close() error { return nil }

func (o *file) ReadAt(buf []byte, at int64) (int, error) {
	if err := o.fs.begin("read", o.name); err != nil {
		return 0, err
	}
	defer o.fs.mu.Unlock()
	n := o.node.data.read(buf, at)
	if n < len(buf) {
		return n, io.EOF
	}
	return n, nil
}

func (o *file) WriteAt(buf []byte, at int64) (int, error) {
	if err := o.fs.begin("write", o.name); err != nil {
		return 0, err
	}
	defer o.fs.mu.Unlock()
	if err := o.extend(at + int64(len(buf))); err != nil {
		return 0, err
	}
	o.node.write(buf, at)
	return len(buf), nil
}

// extend makes the file longer, which is durable only once it was synced.
func (o *file) extend(size int64) error {
	grow := size - o.node.data.size
	if grow <= 0 {
		return nil
	}
	if o.fs.used()+grow > o.fs.capacity {
		return fmt.Errorf("extend %s: %w", o.name, disk.ErrSpace)
	}
	o.node.data.extend(size)
	return nil
}

func (o *file) Sync() error {
	if err := o.fs.begin("sync", o.name); err != nil {
		return err
	}
	defer o.fs.mu.Unlock()
	o.node.sync()
	return nil
}

func (o *file) Size() (int64, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	return o.node.data.size, nil
}

func (o *file) Truncate(size int64) error {
	if err := o.fs.begin("truncate", o.name); err != nil {
		return err
	}
	defer o.fs.mu.Unlock()
	o.node.truncate(size)
	return nil
}

func (o *file) Allocate(size int64) error {
	if err := o.fs.begin("allocate", o.name); err != nil {
		return err
	}
	defer o.fs.mu.Unlock()
	return o.extend(size)
}
