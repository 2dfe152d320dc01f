package shuffle

import (
	"context"
	"errors"
	"fmt"
)

// A Merge gives the pairs of some sections in order.
type Merge struct {
	heap    []*cursor // the smallest pair first
	opened  []*cursor
	began   bool
	err     error
	cleanup []func() error
}

// fanIn is how many blocks of a merge fit into memory. Each run is an open file,
// hence the upper limit.
func fanIn(memory int) int { return min(max(memory/BlockSize(memory), 2), 128) }

// NewMerge merges sections of runs in space, in about so many bytes of memory.
// If that takes further runs, they get names that begin with scratch. Close removes them.
func NewMerge(ctx context.Context, space Space, memory int, scratch string, sections []Section) (*Merge, error) {
	all := &Merge{}
	for n, fan := 0, fanIn(memory); len(sections) > fan; n++ {
		name := fmt.Sprintf("%s%d", scratch, n)
		all.cleanup = append(all.cleanup, func() error { return space.Remove(context.WithoutCancel(ctx), name) })
		longer, err := join(ctx, space, name, BlockSize(memory), sections[:fan])
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		sections = append(sections[fan:len(sections):len(sections)], longer)
	}
	if err := all.open(ctx, space, sections); err != nil {
		return nil, err
	}
	return all, nil
}

// join merges sections to one.
func join(ctx context.Context, space Space, name string, block int, sections []Section) (Section, error) {
	m := &Merge{}
	if err := m.open(ctx, space, sections); err != nil {
		return Section{}, err
	}
	defer m.Close()
	w, err := new(writer).open(ctx, space, name, block)
	if err != nil {
		return Section{}, err
	}
	for m.Next() && w.err == nil && ctx.Err() == nil {
		w.add(*m.Pair())
	}
	end := w.endSection()
	return Section{Run: name, To: end}, errors.Join(m.Err(), w.close(), ctx.Err())
}

// open opens the sections. If it fails, the merge is closed.
func (m *Merge) open(ctx context.Context, space Space, sections []Section) error {
	for _, s := range sections {
		if s.From == s.To {
			continue
		}
		from, err := space.Open(ctx, s.Run)
		if err != nil {
			return errors.Join(err, m.Close())
		}
		c := &cursor{of: s, from: from}
		m.opened = append(m.opened, c)
		if c.next() {
			m.heap = append(m.heap, c)
		}
		if c.err != nil {
			return errors.Join(c.err, m.Close())
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return nil
}

// Next moves to the next pair, and tells whether there is one.
func (m *Merge) Next() bool {
	if m.began && len(m.heap) > 0 {
		m.advance()
	}
	m.began = true
	return len(m.heap) > 0
}

// advance moves the first cursor on.
func (m *Merge) advance() {
	first := m.heap[0]
	switch {
	case first.next():
	case first.err != nil:
		m.err, m.heap = first.err, nil
		return
	default:
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
	}
	m.down(0)
}

// down restores the order of the heap below i.
func (m *Merge) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if compare(&m.heap[child].Pair, &m.heap[least].Pair) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

// Pair is the present pair. It is valid until Next.
func (m *Merge) Pair() *Pair { return &m.heap[0].Pair }

// Err is the error that ended the merge, nil if it came to the end.
func (m *Merge) Err() error { return m.err }

// Close closes the runs.
func (m *Merge) Close() error {
	var errs []error
	for _, c := range m.opened {
		errs = append(errs, c.from.Close())
	}
	for _, clean := range m.cleanup {
		errs = append(errs, clean())
	}
	m.opened, m.cleanup, m.heap = nil, nil, nil
	return errors.Join(errs...)
}
