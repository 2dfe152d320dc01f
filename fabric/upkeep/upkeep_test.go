package upkeep_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"gleaner/cluster"
	"gleaner/curator"
	"gleaner/curator/shuffle"
	"gleaner/curator/task"
	"gleaner/fabric/disk"
	"gleaner/fabric/group"
	"gleaner/fabric/maps"
	"gleaner/fabric/pack"
	"gleaner/fabric/tiering"
	"gleaner/fabric/upkeep"
	"gleaner/input"
	"gleaner/kv"
	"gleaner/kv/mem"
)

// TestScenarios scans maps that were made by hand. Commands:
//
//	disks            a line each: its name, its tier, its quota and what is used, in groups [retired] [server=NAME] [rack=NAME]
//	                 a disk is of a server of its own if none is named
//	maps             a line each:
//	                 vdisk ID NAME SIZE [removed] [snapshot] [nameless] [parent=ID]     sizes are in blocks
//	                 group ID vdisk=ID on=DISK,DISK [wanted=N] [building=DISK] [dead] [cut=BLOCKS] [extents=Q,Q]
//	                 packed ID vdisk=ID on=DISK,DISK tenants=ID/Q,ID/Q [print=TEXT]  the extents are in it, all with one fingerprint if that is given
//	                 gone ID                                                             the record of a group
//	                 block VDISK NUMBER ID/Q ID/Q                                        the newest extent first
//	                 used GROUP PERIOD                                                   in periods, for reads
//	                 dense GROUP PERIOD
//	                 now PERIOD
//	                 spare ID/Q
//	scan [JOB]...    what is to be done
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		h := newHouse(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "disks":
				for line := range strings.Lines(d.Input) {
					w := strings.Fields(line)
					more := named(w[4:])
					_, retired := more["retired"]
					h.view.Disks[cluster.DiskID(w[0])] = upkeep.Disk{Tier: cluster.Tier(w[1]), Quota: groups(t, w[2]), Used: groups(t, w[3]), Retired: retired,
						Server: cluster.ServerID(cmp.Or(more["server"], w[0])), Within: [3]string{2: more["rack"]}}
				}
			case "maps":
				for line := range strings.Lines(d.Input) {
					h.make(t, strings.Fields(line))
				}
			case "scan":
				var jobs []string
				for _, a := range d.CmdArgs {
					jobs = append(jobs, a.Key)
				}
				return h.scan(t, jobs)
			default:
				t.Fatalf("no command %s", d.Cmd)
			}
			return ""
		})
	})
}

// A house has maps, and disks that are only spoken of.
type house struct {
	store kv.Store
	maps  *maps.Maps
	view  upkeep.View
}

func newHouse(t *testing.T) *house {
	h := &house{store: mem.New(), view: upkeep.View{Tiers: []cluster.Tier{"ssd", "hdd"}, Disks: map[cluster.DiskID]upkeep.Disk{}, VDisks: map[disk.VDiskID]upkeep.VDisk{}, Spare: map[maps.ExtentID]bool{}, Dense: map[disk.GroupID]tiering.Period{}}}
	var err error
	if h.maps, err = maps.Open(context.Background(), h.store, kv.NewWriter(1)); err != nil {
		t.Fatal(err)
	}
	return h
}

func groups(t *testing.T, text string) cluster.Bytes {
	return cluster.Bytes(count(t, text)) * disk.GroupSize
}

func count(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func extent(t *testing.T, text string) maps.ExtentID {
	id, quarter, _ := strings.Cut(text, "/")
	return maps.ExtentID{Group: disk.GroupID(count(t, id)), Quarter: uint8(count(t, quarter))}
}

// named splits words of the form name=value and plain words off.
func named(words []string) map[string]string {
	out := map[string]string{}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		out[name] = value
	}
	return out
}

func (h *house) make(t *testing.T, w []string) {
	t.Helper()
	ctx := context.Background()
	var err error
	switch w[0] {
	case "vdisk":
		err = h.makeVDisk(t, w)
	case "group":
		err = h.makeGroup(t, w)
	case "block":
		b := maps.Block{}
		for _, e := range w[3:] {
			b.Pile = append(b.Pile, extent(t, e))
		}
		_, err = h.maps.SetBlock(ctx, disk.VDiskID(count(t, w[1])), int64(count(t, w[2])), b, kv.Version{})
	case "used":
		err = h.maps.SetAccess(ctx, map[disk.GroupID]tiering.Access{disk.GroupID(count(t, w[1])): tiering.ReadOnce(tiering.Period(count(t, w[2])))})
	case "packed":
		err = h.makePacked(t, w)
	case "gone":
		id := disk.GroupID(count(t, w[1]))
		_, version, failed := h.maps.Group(ctx, id)
		err = errors.Join(failed, h.maps.DeleteGroup(ctx, id, version))
	case "dense":
		h.view.Dense[disk.GroupID(count(t, w[1]))] = tiering.Period(count(t, w[2]))
	case "now":
		h.view.Now = tiering.Period(count(t, w[1]))
	case "spare":
		h.view.Spare[extent(t, w[1])] = true
	default:
		t.Fatalf("no %s can be made", w[0])
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *house) makeVDisk(t *testing.T, w []string) error {
	more := named(w[4:])
	_, removed := more["removed"]
	_, snapshot := more["snapshot"]
	_, nameless := more["nameless"]
	v := maps.VDisk{ID: disk.VDiskID(count(t, w[1])), Name: w[2], Size: int64(count(t, w[3])) * disk.BlockSize, Replicas: 2, Removed: removed, Snapshot: snapshot, Created: time.Unix(0, 0)}
	if parent, ok := more["parent"]; ok {
		v.Parent = disk.VDiskID(count(t, parent))
	}
	h.view.See(v)
	_, err := h.maps.SetVDisk(context.Background(), v, kv.Version{})
	if err == nil && !nameless {
		_, err = h.maps.Bind(context.Background(), v.Name, v.ID)
	}
	return err
}

func (h *house) makeGroup(t *testing.T, w []string) error {
	ctx, more, id := context.Background(), named(w[2:]), disk.GroupID(count(t, w[1]))
	var on []cluster.DiskID
	for _, d := range strings.Split(more["on"], ",") {
		on = append(on, cluster.DiskID(d))
	}
	g := group.New(disk.VDiskID(count(t, more["vdisk"])), len(on), on)
	if wanted, ok := more["wanted"]; ok {
		g.Wanted = count(t, wanted)
	}
	_, g.Dead = more["dead"]
	g.Building = cluster.DiskID(more["building"])
	if cut, ok := more["cut"]; ok {
		g.Cut = count(t, cut)
	}
	if _, err := h.maps.SetGroup(ctx, id, g, kv.Version{}); err != nil || more["extents"] == "" {
		return err
	}
	err := h.maps.CreateExtents(ctx, id)
	for q := range maps.ExtentsPerGroup {
		if e := (maps.ExtentID{Group: id, Quarter: uint8(q)}); err == nil && !strings.Contains(more["extents"], strconv.Itoa(q)) {
			_, err = h.maps.DeleteExtent(ctx, e)
		}
	}
	return err
}

// makePacked makes a packed group, and has extents be in it as far as there are such.
func (h *house) makePacked(t *testing.T, w []string) error {
	ctx, more, id := context.Background(), named(w[2:]), disk.GroupID(count(t, w[1]))
	var on []cluster.DiskID
	for _, d := range strings.Split(more["on"], ",") {
		on = append(on, cluster.DiskID(d))
	}
	g := group.New(disk.VDiskID(count(t, more["vdisk"])), len(on), on)
	g.Level = uint8(pack.Fast)
	for i, text := range strings.Split(more["tenants"], ",") {
		e := extent(t, text)
		g.Tenants = append(g.Tenants, e)
		_, version, err := h.maps.Extent(ctx, e)
		if errors.Is(err, maps.ErrNotFound) {
			continue
		}
		print := pack.Print{byte(id), byte(i)}
		if more["print"] != "" {
			print = pack.Print([]byte(fmt.Sprintf("%-*s", len(print), more["print"])))
		}
		if err := errors.Join(err, h.maps.SetExtent(ctx, e, maps.Extent{Group: id, Packed: &maps.Packed{Print: print}}, version)); err != nil {
			return err
		}
	}
	_, err := h.maps.SetGroup(ctx, id, g, kv.Version{})
	return err
}

func (h *house) scan(t *testing.T, jobs []string) string {
	ctx, s := context.Background(), &upkeep.Scan{Policy: upkeep.Default()}
	s.Policy.Pack, s.Policy.Repack = 24, 7*24
	c, err := curator.Open(ctx, h.store, kv.NewWriter(2), curator.Options{Name: "test", Tables: h.maps.Tables(), Jobs: s.Jobs(), Space: shuffle.Dir(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	planner := s.See(h.view)
	var tasks []task.Task
	_, err = c.Scan(ctx, func(proposed task.Task) error {
		follow, err := planner.Take(proposed)
		tasks = append(tasks, follow...)
		return err
	}, jobs...)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, k := range append(tasks, planner.Rest()...) {
		fmt.Fprintf(&out, "%s %s: %s%s\n", k.Kind, upkeep.Subject(k), k.Why, h.confirm(t, k))
	}
	if out.Len() == 0 {
		return "nothing"
	}
	return out.String()
}

// confirm says whether a finding holds still.
func (h *house) confirm(t *testing.T, k task.Task) string {
	if k.Kind != upkeep.Finding {
		return ""
	}
	still, err := upkeep.Confirm(context.Background(), h.maps, k)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(" (confirmed: %t)", still)
}

func TestPolicyMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"f: 1.5":              `p.yaml:1: f: "1.5" is not a number from 0 to 1`,
		"h: 0.1\nd: -1":       `p.yaml:2: d: "-1" is not a number from 0 to 1`,
		"s: .nan":             `p.yaml:1: s: ".nan" is not a number from 0 to 1`,
		"m: much":             `p.yaml:1: m: "much" is not a number from 0 to 1`,
		"h1: 0":               `p.yaml:1: h1: "0" is not a number of hours from a second to 8760`,
		"h1: 7":               `p.yaml:1: h1 must not be above h2: a scan of all maps is one of each`,
		"f: 0.5\n\nh2: 0.5":   `p.yaml:3: h1 must not be above h2: a scan of all maps is one of each`,
		"f: 0.1":              `p.yaml:1: h must not be above f: a tier cannot be relieved of more than it holds`,
		"f: 0.8\nf: 0.7":      `p.yaml:2: the policy has the field "f" twice`,
		"full: 0.8":           `p.yaml:1: `,
		"floor: 0":            `p.yaml:1: floor: "0" is not a number from 0.01 to 1`,
		"ceiling: 2":          `p.yaml:1: ceiling: "2" is not a number from 0.01 to 1`,
		"ceiling: 0.05":       `p.yaml:1: floor must not be above ceiling: upkeep may take more of the time while servers are used less`,
		"pack: 20\nrepack: 9": `p.yaml:1: pack must not be above repack: what is compressed again was compressed before`,
		"pack: -1":            `p.yaml:1: pack: "-1" is not a number of hours from a second to 8760, or 0`,
		"shards: 1":           `p.yaml:1: shards: "1" is not a whole number from 2 to 16, or 0`,
		"shards: 2.5":         `p.yaml:1: shards: "2.5" is not a whole number from 2 to 16, or 0`,
		"- f":                 `p.yaml:1: the policy must be a list of fields with values`,
		"f: 0.8\n---\nf: 1":   `p.yaml:2: a second document; a file holds one`,
	} {
		_, err := upkeep.ReadPolicy("p.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || !input.Is(err) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", "# nothing", "f: 0.8\nh2: 24", "pack: 0\nrepack: 0", "repack: 0", "shards: 4"} {
		if p, err := upkeep.ReadPolicy("p.yaml", []byte(text)); err != nil || p.Check() != nil || p.D != 0.9 {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

// Whatever a policy file says, it is read as a policy that holds, or is a mistake of the user's.
func FuzzPolicy(f *testing.F) {
	for _, text := range []string{"f: 0.8", "h1: 1\nh2: 2", "f: [", "h: 1e400", "m: &a 0.1\ns: *a"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := upkeep.ReadPolicy("p.yaml", text)
		if err == nil {
			err = p.Check()
			if err != nil {
				t.Errorf("%q is read as %+v: %v", text, p, err)
			}
		} else if !input.Is(err) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// No task, however damaged, is carried out on something else, and none panics.
func FuzzDo(f *testing.F) {
	for _, kind := range []string{upkeep.LoseDisk, upkeep.Rebuild, upkeep.RemoveVDisk, upkeep.Migrate, upkeep.TierDown, upkeep.Pack, upkeep.Share, upkeep.Finding, "none"} {
		f.Add(kind, []byte("12345678d1"), []byte("\x00\x00\x00\x01hdd"))
		f.Add(kind, []byte{}, []byte{1})
	}
	f.Fuzz(func(t *testing.T, kind string, what, seen []byte) {
		k := task.Task{Kind: kind, What: what, Seen: seen}
		_ = upkeep.Subject(k)
		h := newHouse(t)
		if _, err := upkeep.Confirm(context.Background(), h.maps, k); kind == upkeep.Finding && len(what) != 25 && err == nil {
			t.Errorf("a finding of %x", what)
		}
		err := upkeep.Do(context.Background(), idle{}, nil, k)
		if err == nil && len(what) < 8 && kind != upkeep.LoseDisk && kind != upkeep.Migrate {
			t.Errorf("%s of %x was done", kind, what)
		}
	})
}

// An idle fabric does nothing.
type idle struct{}

func (idle) Lost(context.Context, cluster.DiskID) ([]disk.GroupID, error)       { return nil, nil }
func (idle) Rebuild(context.Context, disk.GroupID, cluster.DiskID) error        { return nil }
func (idle) ReapVDisk(context.Context, disk.VDiskID) error                      { return nil }
func (idle) Merge(context.Context, disk.VDiskID) error                          { return nil }
func (idle) RemoveBeyond(context.Context, disk.VDiskID) error                   { return nil }
func (idle) RemoveIdle(context.Context, disk.GroupID, []uint8) error            { return nil }
func (idle) Truncate(context.Context, disk.GroupID) error                       { return nil }
func (idle) RemoveGroup(context.Context, disk.GroupID) error                    { return nil }
func (idle) Use(context.Context, disk.VDiskID, func(upkeep.Volume) error) error { return nil }
func (idle) Access(context.Context, disk.GroupID) (tiering.Access, error) {
	return tiering.Access{}, nil
}
func (idle) Pack(context.Context, []disk.GroupID, upkeep.Form) error   { return nil }
func (idle) Dedup(context.Context, maps.ExtentID, maps.ExtentID) error { return nil }
func (idle) Move(context.Context, disk.GroupID, cluster.DiskID, func([]cluster.DiskID) (cluster.DiskID, bool)) error {
	return errors.New("nowhere")
}
