package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTaken is returned for a lease that another holds: by Acquire while it has
// not expired, by Renew, Release and Remove once another has acquired it.
var ErrTaken = errors.New("kv: another holds the lease")

// A Lease says who may do something, and until when. A holder whose clock runs
// behind may think that it holds a lease that another has taken. So the holder
// passes the Token to what it acts on, which refuses a token smaller than the
// largest it has seen.
type Lease struct {
	Name    string    `json:"-"`
	Holder  string    `json:"holder"` // empty when it was released
	Expires time.Time `json:"expires"`
	Token   uint64    `json:"token"` // grows each time that the lease is acquired

	version Version
}

// Held tells whether the lease has a holder at that time.
func (l Lease) Held(now time.Time) bool { return l.Holder != "" && now.Before(l.Expires) }

// Leases are the leases kept in a table that holds nothing else.
type Leases struct {
	Table  Table
	Writer *Writer
}

// Acquire takes the named lease for holder until now+ttl if it is free, has
// expired, or is the holder's already. Otherwise it returns ErrTaken with the
// present lease. A holder that acquires again gets a new token, and its former
// lease cannot be renewed.
func (ls Leases) Acquire(ctx context.Context, name, holder string, now time.Time, ttl time.Duration) (Lease, error) {
	if holder == "" {
		return Lease{}, errors.New("kv: a lease needs a holder")
	}
	for {
		present, err := ls.Get(ctx, name)
		if err != nil {
			return Lease{}, err
		}
		if present.Held(now) && present.Holder != holder {
			return present, fmt.Errorf("%w: %s holds %s until %s", ErrTaken, present.Holder, name, present.Expires.Format(time.RFC3339))
		}
		next := present
		next.Holder, next.Expires, next.Token = holder, now.Add(ttl), present.Token+1
		next, err = ls.set(ctx, next)
		if err == nil || !errors.Is(err, ErrConflict) {
			return next, err
		}
	}
}

// Renew moves the end of a lease to now+ttl. It works after the lease expired,
// too, if nobody has taken it since, and after a renewal of unknown outcome.
func (ls Leases) Renew(ctx context.Context, l Lease, now time.Time, ttl time.Duration) (Lease, error) {
	l.Expires = now.Add(ttl)
	return ls.replace(ctx, l, l.Holder)
}

// Release gives a lease up before it expires.
func (ls Leases) Release(ctx context.Context, l Lease) error {
	holder := l.Holder
	l.Holder, l.Expires = "", time.Time{} // not a delete: the next token is counted from this
	_, err := ls.replace(ctx, l, holder)
	return err
}

// Remove deletes a lease. Its tokens would start again at 1, so it is for names
// that are never acquired again.
func (ls Leases) Remove(ctx context.Context, l Lease) error {
	for {
		err := ls.Writer.Delete(ctx, ls.Table, leaseKey(l.Name), l.version)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if l.version, err = ls.ours(ctx, l, l.Holder); err != nil {
			return err
		}
	}
}

// Get reads the named lease. One that was never acquired is zero except for its name.
func (ls Leases) Get(ctx context.Context, name string) (Lease, error) {
	l := Lease{Name: name}
	record, err := ls.Table.Get(ctx, leaseKey(name))
	if errors.Is(err, ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return Lease{}, err
	}
	if err := json.Unmarshal(record.Value, &l); err != nil {
		return Lease{}, fmt.Errorf("kv: read lease %s: %w", name, err)
	}
	l.version = record.Version
	return l, nil
}

// replace writes l in the name of its holder, and returns ErrTaken if another has acquired it since it was read.
func (ls Leases) replace(ctx context.Context, l Lease, holder string) (Lease, error) {
	for {
		next, err := ls.set(ctx, l)
		if !errors.Is(err, ErrConflict) {
			return next, err
		}
		if l.version, err = ls.ours(ctx, l, holder); err != nil {
			return Lease{}, err
		}
	}
}

// ours gives the present version of a lease that nobody has acquired since l was: who wrote it was its holder, in a call whose
// outcome stayed unknown and which the store carried out later.
func (ls Leases) ours(ctx context.Context, l Lease, holder string) (Version, error) {
	present, err := ls.Get(ctx, l.Name)
	if err != nil {
		return Version{}, err
	}
	if present.Token != l.Token || present.Holder != holder && present.Holder != l.Holder {
		return Version{}, fmt.Errorf("%w: %s has a new holder", ErrTaken, l.Name)
	}
	return present.version, nil
}

func (ls Leases) set(ctx context.Context, l Lease) (Lease, error) {
	value, err := json.Marshal(l)
	if err != nil {
		return Lease{}, err
	}
	l.version, err = ls.Writer.Set(ctx, ls.Table, leaseKey(l.Name), l.version, value)
	if err != nil {
		return Lease{}, err
	}
	return l, nil
}

func leaseKey(name string) Key { return Key{Part: []byte(name)} }
