package hadooprpc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"gleaner/trace"
)

// A shape is how leaves fit into a message. It is computed once for all messages whose
// leaves have the same paths: the messages of a player mostly differ in values only.
type shape struct {
	paths []string
	root  part
}

// A part is a field of a message, or one element of a list.
type part struct {
	field protoreflect.FieldDescriptor // nil: the message itself
	leaf  int                          // that has its value; -1 for none
	parts []*part                      // of a message
	row   []*part                      // of a list
}

// shapes are those of one kind of message.
type shapes struct {
	kind  protoreflect.MessageDescriptor
	known atomic.Pointer[[]*shape]
}

// mostShapes is how many are kept: lists of any length may make any number of shapes.
const mostShapes = 64

// encode appends a message of leaves.
func (s *shapes) encode(b []byte, leaves []trace.Leaf) ([]byte, error) {
	sh, err := s.of(leaves)
	if err != nil {
		return nil, err
	}
	return sh.root.append(b, leaves)
}

func (s *shapes) of(leaves []trace.Leaf) (*shape, error) {
	var known []*shape
	if p := s.known.Load(); p != nil {
		known = *p
	}
	for _, sh := range known {
		if slices.EqualFunc(sh.paths, leaves, func(path string, l trace.Leaf) bool { return path == l.Path }) {
			return sh, nil
		}
	}
	sh, err := newShape(s.kind, leaves)
	if err == nil && len(known) < mostShapes {
		with := append(slices.Clone(known), sh)
		s.known.Store(&with) // if two goroutines do this at once, one shape is computed again
	}
	return sh, err
}

func newShape(kind protoreflect.MessageDescriptor, leaves []trace.Leaf) (*shape, error) {
	sh := &shape{root: part{leaf: -1}}
	for i, l := range leaves {
		sh.paths = append(sh.paths, strings.Clone(l.Path))
		if err := sh.root.put(kind, l.Path, i); err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	return sh, sh.root.complete(kind)
}

// put makes the parts that a path leads through.
func (p *part) put(kind protoreflect.MessageDescriptor, path string, leaf int) error {
	name, rest, deeper := strings.Cut(path, ".")
	name, index, err := splitIndex(name)
	if err != nil {
		return err
	}
	f := kind.Fields().ByName(protoreflect.Name(name))
	switch {
	case f == nil:
		return fmt.Errorf("%s has no field %q", kind.FullName(), name)
	case f.IsMap() || f.Kind() == protoreflect.GroupKind:
		return fmt.Errorf("%s is a map or a group, which no recording of this protocol has", name)
	case f.IsList() != (index >= 0):
		return fmt.Errorf("%s: a list has an index, and nothing else has", name)
	case deeper != (f.Message() != nil):
		return fmt.Errorf("%s: a value stands where the schema has none", name)
	}
	to := p.at(f)
	if f.IsList() {
		to = to.element(index)
	}
	if deeper {
		return to.put(f.Message(), rest, leaf)
	}
	to.leaf = leaf
	return nil
}

// at finds the part of a field, or adds it.
func (p *part) at(f protoreflect.FieldDescriptor) *part {
	for _, have := range p.parts {
		if have.field == f {
			return have
		}
	}
	p.parts = append(p.parts, &part{field: f, leaf: -1})
	return p.parts[len(p.parts)-1]
}

// element finds an element, and makes the list long enough.
func (p *part) element(index int) *part {
	for len(p.row) <= index {
		p.row = append(p.row, &part{field: p.field, leaf: -1})
	}
	return p.row[index]
}

// splitIndex takes "ask[2]" apart; -1 stands for no index.
func splitIndex(name string) (string, int, error) {
	name, index, ok := strings.Cut(name, "[")
	if !ok {
		return name, -1, nil
	}
	at, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
	if err != nil || at < 0 || at > maxElements || !strings.HasSuffix(index, "]") {
		return "", 0, fmt.Errorf("%q is not an index", "["+index)
	}
	return name, at, nil
}

// maxElements bounds a list's index, so that a path alone cannot ask for memory.
const maxElements = 1 << 16

// complete adds required messages that are empty: leaves do not show them.
func (p *part) complete(kind protoreflect.MessageDescriptor) error {
	required := kind.RequiredNumbers()
	for i := range required.Len() {
		f := kind.Fields().ByNumber(required.Get(i))
		if q := p.at(f); f.Message() == nil && q.leaf < 0 {
			return fmt.Errorf("%s needs %s", kind.FullName(), f.Name())
		}
	}
	for _, q := range p.parts {
		if q.field.Message() == nil {
			continue
		}
		all := q.row
		if !q.field.IsList() {
			all = []*part{q}
		}
		for _, m := range all {
			if err := m.complete(q.field.Message()); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(p.parts, func(a, b *part) int { return cmp.Compare(a.field.Number(), b.field.Number()) })
	return nil
}

// append writes the fields of a message.
func (p *part) append(b []byte, leaves []trace.Leaf) (_ []byte, err error) {
	for _, q := range p.parts {
		if !q.field.IsList() {
			if b, err = q.appendOne(b, leaves); err != nil {
				return nil, err
			}
		}
		for _, element := range q.row {
			if b, err = element.appendOne(b, leaves); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func (p *part) appendOne(b []byte, leaves []trace.Leaf) ([]byte, error) {
	if p.field.Message() != nil {
		b = protowire.AppendTag(b, p.field.Number(), protowire.BytesType)
		return sized(b, func(b []byte) ([]byte, error) { return p.append(b, leaves) })
	}
	if p.leaf < 0 {
		return appendScalar(b, p.field, zero(p.field))
	}
	b, err := appendScalar(b, p.field, leaves[p.leaf].Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", leaves[p.leaf].Path, err)
	}
	return b, nil
}

// sized writes a length and then what write appends.
func sized(b []byte, write func([]byte) ([]byte, error)) ([]byte, error) {
	at := len(b)
	b, err := write(append(b, 0)) // most are shorter than 128 bytes
	if err != nil {
		return nil, err
	}
	n := len(b) - at - 1
	if n < 0x80 {
		b[at] = byte(n)
		return b, nil
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	b = append(b, make([]byte, more)...)
	copy(b[at+1+more:], b[at+1:at+1+n])
	protowire.AppendVarint(b[:at], uint64(n))
	return b, nil
}

// zero is an element of a list that has no leaf.
func zero(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return "false"
	case protoreflect.StringKind, protoreflect.BytesKind:
		return ""
	case protoreflect.EnumKind:
		return strconv.Itoa(int(f.Enum().Values().Get(0).Number()))
	}
	return "0"
}

// appendScalar writes a tag and a value that is no message.
func appendScalar(b []byte, f protoreflect.FieldDescriptor, text string) ([]byte, error) {
	tag := func(t protowire.Type) []byte { return protowire.AppendTag(b, f.Number(), t) }
	switch f.Kind() {
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return protowire.AppendVarint(tag(protowire.VarintType), protowire.EncodeBool(text == "true")), nil
	case protoreflect.StringKind:
		return protowire.AppendString(tag(protowire.BytesType), strings.ToValidUTF8(text, "\ufffd")), nil
	case protoreflect.BytesKind:
		raw, err := rawBytes(text)
		return protowire.AppendBytes(tag(protowire.BytesType), raw), err
	case protoreflect.EnumKind:
		n, err := enum(f, text)
		return protowire.AppendVarint(tag(protowire.VarintType), uint64(int64(n))), err
	case protoreflect.FloatKind:
		x, err := strconv.ParseFloat(text, 64)
		return protowire.AppendFixed32(tag(protowire.Fixed32Type), math.Float32bits(float32(x))), number(err, text)
	case protoreflect.DoubleKind:
		x, err := strconv.ParseFloat(text, 64)
		return protowire.AppendFixed64(tag(protowire.Fixed64Type), math.Float64bits(x)), number(err, text)
	}
	x, err := integer(f.Kind(), text)
	switch f.Kind() {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(tag(protowire.VarintType), protowire.EncodeZigZag(int64(x))), err
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(tag(protowire.Fixed32Type), uint32(x)), err
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(tag(protowire.Fixed64Type), x), err
	}
	return protowire.AppendVarint(tag(protowire.VarintType), x), err
}

// integer reads a whole number, as the 64 bits it is written in.
func integer(kind protoreflect.Kind, s string) (uint64, error) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		x, err := strconv.ParseInt(s, 10, 32)
		return uint64(x), number(err, s)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		x, err := strconv.ParseUint(s, 10, 32)
		return x, number(err, s)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if x, err := strconv.ParseUint(s, 10, 64); err == nil {
			return x, nil
		} // Java has no unsigned numbers: it may be a negative one
	}
	x, err := strconv.ParseInt(s, 10, 64)
	return uint64(x), number(err, s)
}

func number(err error, s string) error {
	if err != nil {
		return fmt.Errorf("%q is not a number that fits", s)
	}
	return nil
}

func enum(f protoreflect.FieldDescriptor, name string) (protoreflect.EnumNumber, error) {
	if known := f.Enum().Values().ByName(protoreflect.Name(name)); known != nil {
		return known.Number(), nil
	}
	if n, err := strconv.ParseInt(name, 10, 32); err == nil {
		return protoreflect.EnumNumber(n), nil
	}
	return 0, fmt.Errorf("%s has no value %q", f.Enum().FullName(), name)
}
