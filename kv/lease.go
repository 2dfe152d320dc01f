package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTaken is returned for a lease that another holds: by Acquire while it has
// not expired, by Renew when it has passed on.
var ErrTaken = errors.New("kv: another holds the lease")

// A Lease says who may do something, and until when. A holder whose clock runs
// behind may think it holds a lease that another has taken. So whoever acts on a
// lease hands its Token to what it acts on, which refuses a token smaller than
// one that it has seen.
type Lease struct {
	Name    string    `json:"-"`
	Holder  string    `json:"holder"` // empty when it was released
	Expires time.Time `json:"expires"`
	Token   uint64    `json:"token"` // grows each time that the lease is acquired

	version Version
}

// Held tells whether somebody holds the lease at that time.
func (l Lease) Held(now time.Time) bool { return l.Holder != "" && now.Before(l.Expires) }

// Leases are the leases kept in a table that holds nothing else.
type Leases struct {
	Table  Table
	Writer *Writer
}

// Acquire takes the named lease for holder until now+ttl if it is free, has
// expired, or is the holder's already. Otherwise the error is ErrTaken, and the
// lease that stands is returned beside it. A holder that acquires again gets a
// new token, and its former lease cannot be renewed.
func (ls Leases) Acquire(ctx context.Context, name, holder string, now time.Time, ttl time.Duration) (Lease, error) {
	if holder == "" {
		return Lease{}, errors.New("kv: a lease needs a holder")
	}
	for {
		standing, err := ls.Get(ctx, name)
		if err != nil {
			return Lease{}, err
		}
		if standing.Held(now) && standing.Holder != holder {
			return standing, fmt.Errorf("%w: %s holds %s until %s", ErrTaken, standing.Holder, name, standing.Expires.Format(time.RFC3339))
		}
		next := standing
		next.Holder, next.Expires, next.Token = holder, now.Add(ttl), standing.Token+1
		next, err = ls.set(ctx, next)
		if err == nil || !errors.Is(err, ErrConflict) {
			return next, err
		}
	}
}

// Renew moves the end of a lease to now+ttl. It works after the lease expired,
// too, if nobody has taken it since.
func (ls Leases) Renew(ctx context.Context, l Lease, now time.Time, ttl time.Duration) (Lease, error) {
	l.Expires = now.Add(ttl)
	return ls.pass(ctx, l)
}

// Release gives a lease up before its time.
func (ls Leases) Release(ctx context.Context, l Lease) error {
	l.Holder, l.Expires = "", time.Time{} // not a delete: the next token is counted from this
	_, err := ls.pass(ctx, l)
	return err
}

// Remove deletes a lease. No token is counted from it then, so it is for names
// that are never acquired again.
func (ls Leases) Remove(ctx context.Context, l Lease) error {
	err := ls.Writer.Delete(ctx, ls.Table, leaseKey(l.Name), l.version)
	if errors.Is(err, ErrConflict) {
		return fmt.Errorf("%w: %s has passed on", ErrTaken, l.Name)
	}
	return err
}

// Get reads the named lease as it stands. One never acquired is zero but for its name.
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

// pass writes l, which its holder has, and says ErrTaken if it has not any more.
func (ls Leases) pass(ctx context.Context, l Lease) (Lease, error) {
	next, err := ls.set(ctx, l)
	if errors.Is(err, ErrConflict) {
		return Lease{}, fmt.Errorf("%w: %s has passed on", ErrTaken, l.Name)
	}
	return next, err
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
