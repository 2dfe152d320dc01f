package mem

import (
	"hash/maphash"

	"gleaner/kv"
)

// A node is the root of a treap: a search tree by key and a heap by rank, where
// rank is a hash of the key, which keeps it balanced. Nodes are never changed,
// so a root is a snapshot; a change makes new nodes along one path.
type node struct {
	key         string // the record's flat key
	rank        uint64
	weight      int // bytes of all records from here down
	record      kv.Record
	left, right *node
}

var seed = maphash.MakeSeed()

func leaf(key string, r kv.Record) *node {
	return (&node{key: key, rank: maphash.String(seed, key), record: r}).with(nil, nil)
}

func (n *node) own() int { return len(n.key) + len(n.record.Value) }

func (n *node) bytes() int {
	if n == nil {
		return 0
	}
	return n.weight
}

func (n *node) with(left, right *node) *node {
	m := *n
	m.left, m.right = left, right
	m.weight = m.own() + left.bytes() + right.bytes()
	return &m
}

// split parts n into the keys before key and the others.
func (n *node) split(key string) (before, rest *node) {
	switch {
	case n == nil:
		return nil, nil
	case n.key < key:
		l, r := n.right.split(key)
		return n.with(n.left, l), r
	default:
		l, r := n.left.split(key)
		return l, n.with(r, n.right)
	}
}

// join puts together two treaps, all keys of l before all of r.
func join(l, r *node) *node {
	switch {
	case l == nil:
		return r
	case r == nil:
		return l
	case l.rank > r.rank:
		return l.with(l.left, join(l.right, r))
	default:
		return r.with(join(l, r.left), r.right)
	}
}

// replace puts m, which may be nil, in the place of key.
func (n *node) replace(key string, m *node) *node {
	before, rest := n.split(key)
	_, after := rest.split(key + "\x00")
	return join(join(before, m), after)
}

// put is replace by a leaf with the record.
func (n *node) put(r kv.Record) *node {
	key := flatten(r.Key)
	return n.replace(key, leaf(key, clone(r)))
}

func (n *node) find(key string) *node {
	for n != nil && n.key != key {
		if key < n.key {
			n = n.left
		} else {
			n = n.right
		}
	}
	return n
}

// walk visits the keys lo <= key < hi in order; with open, hi is no bound.
func (n *node) walk(lo, hi string, open bool, visit func(*node) bool) bool {
	if n == nil {
		return true
	}
	from, to := n.key >= lo, open || n.key < hi
	if from && !n.left.walk(lo, hi, open, visit) {
		return false
	}
	if from && to && !visit(n) {
		return false
	}
	return !to || n.right.walk(lo, hi, open, visit)
}

// at gives the node in which the byte of that offset lies.
func (n *node) at(offset int) *node {
	for {
		left := n.left.bytes()
		switch {
		case offset < left:
			n = n.left
		case offset < left+n.own() || n.right == nil:
			return n
		default:
			offset -= left + n.own()
			n = n.right
		}
	}
}
