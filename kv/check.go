package kv

import (
	"errors"
	"fmt"
)

// Check returns an error if k is no valid key.
func (k Key) Check() error {
	switch {
	case len(k.Part) == 0:
		return errors.New("kv: a key needs a part")
	case len(k.Part) > MaxKey:
		return fmt.Errorf("kv: a part of %d bytes, at most %d fit", len(k.Part), MaxKey)
	case len(k.Row) > MaxKey:
		return fmt.Errorf("kv: a row of %d bytes, at most %d fit", len(k.Row), MaxKey)
	}
	return nil
}

// Check returns an error if r cannot be put.
func (r Record) Check() error {
	if len(r.Value) > MaxValue {
		return fmt.Errorf("kv: a value of %d bytes, at most %d fit", len(r.Value), MaxValue)
	}
	return r.Key.Check()
}

// CheckLoad returns an error if records cannot be loaded.
func CheckLoad(records []Record) error {
	for _, r := range records {
		if r.Version == (Version{}) {
			return errors.New("kv: to load a record needs its version")
		}
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// CheckApply returns an error if an Apply is invalid, whatever the table holds.
func CheckApply(part []byte, next Version, changes []Change) error {
	if len(changes) > MaxChanges {
		return fmt.Errorf("kv: %d changes at once, at most %d fit", len(changes), MaxChanges)
	}
	size, writes, seen := 0, false, map[string]bool{}
	for _, c := range changes {
		if err := c.check(part, next); err != nil {
			return err
		}
		if seen[string(c.Row)] {
			return fmt.Errorf("kv: row %q is changed twice at once", c.Row)
		}
		seen[string(c.Row)] = true
		size += len(c.Value)
		writes = writes || c.Do != Keep
	}
	switch {
	case !writes:
		return errors.New("kv: nothing to change")
	case size > MaxValue:
		return fmt.Errorf("kv: values of %d bytes at once, at most %d fit", size, MaxValue)
	}
	return nil
}

func (c Change) check(part []byte, next Version) error {
	switch {
	case c.Do > Keep:
		return fmt.Errorf("kv: no such change: %d", c.Do)
	case c.Do == Set && (next == Version{} || next == c.Old):
		return fmt.Errorf("kv: %v cannot follow %v: a write needs a version of its own", next, c.Old)
	case c.Do != Set && c.Old == Version{}:
		return errors.New("kv: to delete or keep a record needs its version")
	}
	return Key{part, c.Row}.Check()
}

// CheckName returns an error if name is no valid name of a table.
func CheckName(name string) error {
	ok := len(name) >= 1 && len(name) <= 48 && name[0] >= 'a' && name[0] <= 'z'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_')
	}
	if !ok {
		return fmt.Errorf("kv: %q cannot name a table: use up to 48 of a-z, 0-9 and _, a letter first", name)
	}
	return nil
}

// WrongKind is the error for a table, loose or not, that was asked for as the other kind.
func WrongKind(name string, loose bool) error {
	if loose {
		return fmt.Errorf("kv: table %s is loose: no compare-and-set", name)
	}
	return fmt.Errorf("kv: table %s is not loose: it changes by compare-and-set only", name)
}
