package record

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"gleaner/trace"
)

// Method gives the descriptor of a method ("package.Service/Name"); nil if not known.
func (d *Descriptors) Method(name string) protoreflect.MethodDescriptor { return d.methods[name] }

// Leaves flattens a message as Decode does.
func Leaves(m proto.Message) []trace.Leaf { return leaves(nil, "", m.ProtoReflect()) }

// Message makes a message of leaves, the reverse of Leaves.
func Message(kind protoreflect.MessageDescriptor, from []trace.Leaf) (proto.Message, error) {
	m := dynamicpb.NewMessage(kind)
	for _, l := range from {
		if err := setLeaf(m, splitPath(l.Path), l.Value); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", kind.FullName(), l.Path, err)
		}
	}
	return m, nil
}

// A component is one name of a path, with the index behind it if any.
type component struct {
	name  string
	index int // -1 for none
}

// splitPath takes a path apart: "a\.b.c[2]".
func splitPath(path string) []component {
	if !strings.ContainsAny(path, `.[{\`) {
		return []component{{path, -1}}
	}
	var out []component
	path = strings.TrimSuffix(path, "{}")
	name, index := strings.Builder{}, -1
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			if i++; i < len(path) {
				name.WriteByte(path[i])
			}
		case '.':
			out = append(out, component{name.String(), index})
			name.Reset()
			index = -1
		case '[':
			end := strings.IndexByte(path[i:], ']')
			if n, err := strconv.Atoi(path[i+1 : i+max(end, 1)]); err == nil && end > 0 {
				index = n
				i += end
			}
		default:
			name.WriteByte(path[i])
		}
	}
	return append(out, component{name.String(), index})
}

// maxList is the longest list accepted.
const maxList = 1 << 20

func setLeaf(m protoreflect.Message, path []component, value string) error {
	at := path[0]
	f := m.Descriptor().Fields().ByName(protoreflect.Name(at.name))
	if f == nil {
		return fmt.Errorf("the message %s has no field %q", m.Descriptor().FullName(), at.name)
	}
	isMessage := f.Message() != nil && !f.IsMap()
	switch {
	case f.IsMap():
		return setEntry(m, f, path[1:], value)
	case f.IsList():
		if at.index < 0 || at.index > maxList {
			return fmt.Errorf("%q is a list and needs an index", at.name)
		}
		list := m.Mutable(f).List()
		for list.Len() <= at.index {
			list.Append(list.NewElement())
		}
		if isMessage {
			return setBelow(list.Get(at.index).Message(), path[1:], value)
		}
		v, err := scalar(f, value)
		if err == nil {
			list.Set(at.index, v)
		}
		return err
	case isMessage:
		return setBelow(m.Mutable(f).Message(), path[1:], value)
	}
	v, err := scalar(f, value)
	if err == nil {
		m.Set(f, v)
	}
	return err
}

// setBelow sets a leaf of a message in a message. With no path left, the message is empty.
func setBelow(m protoreflect.Message, path []component, value string) error {
	if len(path) == 0 {
		return nil
	}
	return setLeaf(m, path, value)
}

func setEntry(m protoreflect.Message, f protoreflect.FieldDescriptor, path []component, value string) error {
	if len(path) == 0 {
		return fmt.Errorf("%q is a map and needs a key", f.Name())
	}
	key, err := scalar(f.MapKey(), path[0].name)
	if err != nil {
		return err
	}
	entries := m.Mutable(f).Map()
	if f.MapValue().Message() != nil {
		return setBelow(entries.Mutable(key.MapKey()).Message(), path[1:], value)
	}
	v, err := scalar(f.MapValue(), value)
	if err == nil {
		entries.Set(key.MapKey(), v)
	}
	return err
}

func scalar(f protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch f.Kind() {
	case protoreflect.BoolKind:
		v, err := strconv.ParseBool(text)
		return protoreflect.ValueOfBool(v), err
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		v, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(v)), err
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		v, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(v), err
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		v, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(v)), err
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		v, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(v), err
	case protoreflect.FloatKind:
		v, err := strconv.ParseFloat(text, 32)
		return protoreflect.ValueOfFloat32(float32(v)), err
	case protoreflect.DoubleKind:
		v, err := strconv.ParseFloat(text, 64)
		return protoreflect.ValueOfFloat64(v), err
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BytesKind:
		packed, isPacked := strings.CutPrefix(text, "base64:")
		if !isPacked {
			return protoreflect.ValueOfBytes([]byte(text)), nil
		}
		raw, err := base64.StdEncoding.DecodeString(packed)
		return protoreflect.ValueOfBytes(raw), err
	case protoreflect.EnumKind:
		if v := f.Enum().Values().ByName(protoreflect.Name(text)); v != nil {
			return protoreflect.ValueOfEnum(v.Number()), nil
		}
		v, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(v)), err
	}
	return protoreflect.Value{}, fmt.Errorf("a %s is no single value", f.Kind())
}
