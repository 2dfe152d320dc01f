package hadooprpc

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"gleaner/trace"
)

// maxElements bounds a list's index, so that a path alone cannot ask for memory.
const maxElements = 1 << 16

// encode makes a message of leaves.
func encode(kind protoreflect.MessageDescriptor, leaves []trace.Leaf) ([]byte, error) {
	m := dynamicpb.NewMessage(kind)
	for _, l := range leaves {
		if err := setLeaf(m, l.Path, l); err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	complete(m)
	return proto.Marshal(m)
}

// setLeaf puts a leaf where its path leads, and makes the messages on the way.
func setLeaf(m protoreflect.Message, path string, l trace.Leaf) error {
	name, rest, deeper := strings.Cut(path, ".")
	name, index, err := splitIndex(name)
	if err != nil {
		return err
	}
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case f == nil:
		return fmt.Errorf("%s has no field %q", m.Descriptor().FullName(), name)
	case f.IsMap():
		return fmt.Errorf("%s is a map, which no recording of this protocol has", name)
	case f.IsList() != (index >= 0):
		return fmt.Errorf("%s: a list has an index, and nothing else has", name)
	case deeper != (f.Message() != nil):
		return fmt.Errorf("%s: a value stands where the schema has none", name)
	}
	if f.IsList() {
		return setElement(m.Mutable(f).List(), f, index, rest, l)
	}
	if deeper {
		return setLeaf(m.Mutable(f).Message(), rest, l)
	}
	v, err := scalar(f, l)
	if err == nil {
		m.Set(f, v)
	}
	return err
}

func setElement(list protoreflect.List, f protoreflect.FieldDescriptor, index int, rest string, l trace.Leaf) error {
	for list.Len() <= index {
		list.Append(list.NewElement())
	}
	if f.Message() != nil {
		return setLeaf(list.Get(index).Message(), rest, l)
	}
	v, err := scalar(f, l)
	if err == nil {
		list.Set(index, v)
	}
	return err
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

func scalar(f protoreflect.FieldDescriptor, l trace.Leaf) (v protoreflect.Value, err error) {
	switch f.Kind() {
	case protoreflect.BoolKind:
		if l.Value != "true" && l.Value != "false" {
			return v, fmt.Errorf("%q is neither true nor false", l.Value)
		}
		return protoreflect.ValueOfBool(l.Value == "true"), nil
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ToValidUTF8(l.Value, "\ufffd")), nil
	case protoreflect.BytesKind:
		b, err := rawBytes(l.Value)
		return protoreflect.ValueOfBytes(b), err
	case protoreflect.EnumKind:
		return enum(f, l.Value)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		x, err := strconv.ParseFloat(l.Value, 64)
		if f.Kind() == protoreflect.FloatKind {
			return protoreflect.ValueOfFloat32(float32(x)), number(err, l.Value)
		}
		return protoreflect.ValueOfFloat64(x), number(err, l.Value)
	}
	return integer(f.Kind(), l.Value)
}

func integer(kind protoreflect.Kind, s string) (protoreflect.Value, error) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		x, err := strconv.ParseInt(s, 10, 32)
		return protoreflect.ValueOfInt32(int32(x)), number(err, s)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		x, err := strconv.ParseUint(s, 10, 32)
		return protoreflect.ValueOfUint32(uint32(x)), number(err, s)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		x, err := strconv.ParseUint(s, 10, 64)
		if y, signed := strconv.ParseInt(s, 10, 64); err != nil && signed == nil {
			x, err = uint64(y), nil // Java has no unsigned numbers
		}
		return protoreflect.ValueOfUint64(x), number(err, s)
	}
	x, err := strconv.ParseInt(s, 10, 64)
	return protoreflect.ValueOfInt64(x), number(err, s)
}

func number(err error, s string) error {
	if err != nil {
		return fmt.Errorf("%q is not a number that fits", s)
	}
	return nil
}

func enum(f protoreflect.FieldDescriptor, name string) (protoreflect.Value, error) {
	if known := f.Enum().Values().ByName(protoreflect.Name(name)); known != nil {
		return protoreflect.ValueOfEnum(known.Number()), nil
	}
	if n, err := strconv.ParseInt(name, 10, 32); err == nil {
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), nil
	}
	return protoreflect.Value{}, fmt.Errorf("%s has no value %q", f.Enum().FullName(), name)
}

func rawBytes(s string) ([]byte, error) {
	coded, ok := strings.CutPrefix(s, "base64:")
	if !ok {
		return []byte(s), nil
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return nil, fmt.Errorf("%q is not base64", coded)
	}
	return b, nil
}

// complete makes the messages that must be there and hold nothing: leaves
// cannot tell them from those that are not there.
func complete(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Message() == nil || f.IsMap() {
			continue
		}
		switch {
		case f.IsList():
			for k, list := 0, m.Get(f).List(); k < list.Len(); k++ {
				complete(list.Get(k).Message())
			}
		case m.Has(f) || f.Cardinality() == protoreflect.Required:
			complete(m.Mutable(f).Message())
		}
	}
}

// decode gives the leaves of a message in the form of the recordings.
func decode(kind protoreflect.MessageDescriptor, message []byte) ([]trace.Leaf, error) {
	m := dynamicpb.NewMessage(kind)
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(message, m); err != nil {
		return nil, err
	}
	return appendLeaves(nil, "", m), nil
}

func appendLeaves(into []trace.Leaf, prefix string, m protoreflect.Message) []trace.Leaf {
	var set []protoreflect.FieldDescriptor
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		set = append(set, f)
		return true
	})
	slices.SortFunc(set, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	for _, f := range set {
		path, v := prefix+string(f.Name()), m.Get(f)
		if !f.IsList() {
			into = appendValue(into, path, f, v)
			continue
		}
		for i := range v.List().Len() {
			into = appendValue(into, path+"["+strconv.Itoa(i)+"]", f, v.List().Get(i))
		}
	}
	return into
}

func appendValue(into []trace.Leaf, path string, f protoreflect.FieldDescriptor, v protoreflect.Value) []trace.Leaf {
	leaf := trace.Leaf{Path: path, Kind: trace.Int}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendLeaves(into, path+".", v.Message())
	case protoreflect.BytesKind:
		leaf.Kind, leaf.Value = trace.String, bytesText(v.Bytes())
	case protoreflect.StringKind:
		leaf.Kind, leaf.Value = trace.String, v.String()
	case protoreflect.BoolKind:
		leaf.Kind, leaf.Value = trace.Bool, v.String()
	case protoreflect.FloatKind:
		leaf.Kind, leaf.Value = trace.Float, floatText(v.Float(), 32)
	case protoreflect.DoubleKind:
		leaf.Kind, leaf.Value = trace.Float, floatText(v.Float(), 64)
	case protoreflect.EnumKind:
		leaf.Value = strconv.Itoa(int(v.Enum()))
		if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
			leaf.Kind, leaf.Value = trace.String, string(known.Name())
		}
	default:
		leaf.Value = v.String()
	}
	return append(into, leaf)
}

// bytesText shows bytes as text if all are printable ASCII.
func bytesText(b []byte) string {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return "base64:" + base64.StdEncoding.EncodeToString(b)
		}
	}
	return string(b)
}

// floatText writes a number so that it stays a fraction: 0.0, not 0.
func floatText(v float64, bits int) string {
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if strings.Trim(s, "-0123456789") == "" {
		s += ".0"
	}
	return s
}
