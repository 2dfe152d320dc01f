package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strings"
)

// A Tier is how fast a disk is.
type Tier string

const (
	SSD  Tier = "ssd"
	HDD  Tier = "hdd"
	Cold Tier = "cold"
)

// Identity says which disk a directory is. It is written by Format and stays,
// but for the quota.
type Identity struct {
	Cluster string `json:"cluster"`
	Disk    string `json:"disk"`
	Tier    Tier   `json:"tier"`
	Quota   int64  `json:"quota"` // bytes for groups and log together
	Log     int64  `json:"log"`   // bytes of the log; DefaultLog of the quota if 0
	// Salt begins every record of the log, so that no data of a client passes for
	// one. The caller draws it at random; it may not be 0.
	Salt uint64 `json:"salt,string"`
	// Opened is drawn at random by each Open, and is not kept: a disk with another one
	// may have lost what was not synced.
	Opened uint64 `json:"opened,string,omitempty"`
}

// DefaultLog is the size of the log of a disk with that quota.
func DefaultLog(quota int64) int64 {
	return max(minLog, min(maxLog, quota/8/recordUnit*recordUnit))
}

// Check says what is wrong with an identity.
func (id Identity) Check() error {
	switch {
	case id.Cluster == "" || id.Disk == "":
		return errors.New("disk: a disk has a cluster and a name")
	case id.Tier != SSD && id.Tier != HDD && id.Tier != Cold:
		return fmt.Errorf("disk: tier %q is not %s, %s or %s", id.Tier, SSD, HDD, Cold)
	case id.Log < minLog || id.Log%recordUnit != 0:
		return fmt.Errorf("disk: a log of %d bytes: at least %d, in units of %d", id.Log, minLog, recordUnit)
	case id.Quota < id.Log+logStart+maxGroupFile:
		return fmt.Errorf("disk: a quota of %d bytes has no room for a log of %d and one group", id.Quota, id.Log)
	case id.Salt == 0:
		return errors.New("disk: a disk has a salt")
	}
	return nil
}

// Files of a disk, beside the groups' folder.
const (
	identityFile = "identity"
	lockFile     = "lock"
	logFile      = "log"
	fencesFile   = "fences"
	groupsFolder = "groups"
)

const identityMagic = "gleaner disk format 1\n"

func (id Identity) encode() []byte {
	id.Opened = 0
	text, err := json.Marshal(id)
	if err != nil {
		panic(err) // strings and numbers
	}
	body := identityMagic + string(text) + "\n"
	return fmt.Appendf(nil, "%scrc32c %08x\n", body, checksum([]byte(body)))
}

func decodeIdentity(data []byte) (Identity, error) {
	var id Identity
	if !bytes.HasPrefix(data, []byte(identityMagic)) {
		return id, errors.New("not of a format this version knows")
	}
	end := bytes.LastIndex(data, []byte("crc32c "))
	if end < 0 || string(data[end:]) != fmt.Sprintf("crc32c %08x\n", checksum(data[:end])) {
		return id, errors.New("checksum is wrong")
	}
	if err := json.Unmarshal(data[len(identityMagic):end], &id); err != nil {
		return id, err
	}
	return id, id.Check()
}

// Format makes an empty disk of a directory that has nothing in it. It may be
// tried again after a crash.
func Format(fsys FS, dir string, id Identity) error {
	if id.Log == 0 {
		id.Log = DefaultLog(id.Quota)
	}
	if err := id.Check(); err != nil {
		return err
	}
	if err := vacant(fsys, dir); err != nil {
		return fmt.Errorf("disk: format %s: %w", dir, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockFile))
	if err != nil {
		return fmt.Errorf("disk: format %s: %w", dir, err)
	}
	defer lock.Close()
	if err := enough(fsys, dir, id.Quota); err != nil {
		return fmt.Errorf("disk: format %s: %w", dir, err)
	}
	if err := format(fsys, dir, id); err != nil {
		return fmt.Errorf("disk: format %s: %w", dir, err)
	}
	return nil
}

func format(fsys FS, dir string, id Identity) error {
	if err := fsys.Mkdir(filepath.Join(dir, groupsFolder)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := formatLog(fsys, filepath.Join(dir, logFile), id); err != nil {
		return err
	}
	if err := replace(fsys, filepath.Join(dir, fencesFile), encodeFences(nil)); err != nil {
		return err
	}
	return replace(fsys, filepath.Join(dir, identityFile), id.encode())
}

// vacant says whether a directory has nothing but what an interrupted Format left.
func vacant(fsys FS, dir string) error {
	err := fsys.List(dir, func(name string) error {
		switch strings.TrimSuffix(name, unfinished) {
		case lockFile, logFile, fencesFile, groupsFolder:
			return nil
		case identityFile:
			if name != identityFile {
				return nil
			}
		}
		return fmt.Errorf("%w: it has %s", ErrNotEmpty, name)
	})
	if err != nil {
		return err
	}
	err = fsys.List(filepath.Join(dir, groupsFolder), func(name string) error {
		return fmt.Errorf("%w: it has %s", ErrNotEmpty, filepath.Join(groupsFolder, name))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func enough(fsys FS, dir string, want int64) error {
	free, err := fsys.Free(dir)
	if err != nil {
		return err
	}
	if free < want {
		return fmt.Errorf("%w: quota asks for %d bytes, %d are free", ErrSpace, want, free)
	}
	return nil
}

// readIdentity tells a wiped directory from a damaged one.
func readIdentity(fsys FS, dir string) (Identity, error) {
	data, err := readWhole(fsys, filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, ErrWiped
	}
	if err != nil {
		return Identity{}, err
	}
	id, err := decodeIdentity(data)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrDamaged, identityFile, err)
	}
	return id, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }
