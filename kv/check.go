package kv

import (
	"errors"
	"fmt"
)

// Check says what keeps k from being a key.
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

// CheckSet says what keeps a CompareAndSet from being tried at all.
func CheckSet(key Key, old, next Version) error {
	if next == (Version{}) || next == old {
		return fmt.Errorf("kv: %v cannot follow %v: a write needs a version of its own", next, old)
	}
	return key.Check()
}

// CheckDelete says what keeps a CompareAndDelete from being tried at all.
func CheckDelete(key Key, old Version) error {
	if old == (Version{}) {
		return errors.New("kv: a delete needs the version it deletes")
	}
	return key.Check()
}

// CheckName says what keeps name from naming a table.
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

// WrongKind says that a table, which is loose or is not, was asked for as the other.
func WrongKind(name string, loose bool) error {
	if loose {
		return fmt.Errorf("kv: table %s is loose: no compare-and-set", name)
	}
	return fmt.Errorf("kv: table %s is not loose: it changes by compare-and-set only", name)
}
