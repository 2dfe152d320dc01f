package hadooprpc

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"gleaner/trace"
)

// The twins of encode and decode use the protobuf library's dynamic messages: right, and
// slow.

func twinEncode(kind protoreflect.MessageDescriptor, leaves []trace.Leaf) ([]byte, error) {
	m := dynamicpb.NewMessage(kind)
	for _, l := range leaves {
		if err := setLeaf(m, l.Path, l); err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	complete(m)
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
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

// scalar reads one value. Only this is common to the twins.
func scalar(f protoreflect.FieldDescriptor, l trace.Leaf) (protoreflect.Value, error) {
	b, err := appendScalar(nil, f, l.Value)
	if err != nil {
		return protoreflect.Value{}, err
	}
	m := dynamicpb.NewMessage(f.ContainingMessage())
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, m); err != nil {
		return protoreflect.Value{}, err
	}
	if f.IsList() {
		return m.Get(f).List().Get(0), nil
	}
	return m.Get(f), nil
}

// complete adds required messages that are empty: leaves do not show them.
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

func twinDecode(kind protoreflect.MessageDescriptor, message []byte) ([]trace.Leaf, error) {
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

// TestShapesEqualTheTwin: both encode leaves to the same message, and decode it to the
// same leaves.
func TestShapesEqualTheTwin(t *testing.T) {
	m := toy(t).methods["DatanodeProtocol.echo"]
	leaf := rapid.Custom(func(t *rapid.T) trace.Leaf {
		l := rapid.SampledFrom(everyKind).Draw(t, "leaf")
		if n := rapid.IntRange(0, 3).Draw(t, "index"); strings.HasPrefix(l.Path, "inner[") {
			l.Path = "inner[" + strconv.Itoa(n) + l.Path[len("inner[0"):]
		}
		if l.Kind == trace.String && l.Path != "state" && l.Path != "raw" {
			l.Value = rapid.String().Draw(t, "value") // long ones have long lengths
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		leaves := rapid.SliceOf(leaf).Draw(t, "leaves")
		for range 2 { // the shape is new, and then it is known
			got, err := m.in.encode(nil, leaves)
			want, bad := twinEncode(m.in.kind, leaves)
			if err != nil || bad != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v: %x, %v instead of %x, %v", leaves, got, err, want, bad)
			}
			back, err := m.in.decode(got)
			twin, bad := twinDecode(m.in.kind, got)
			if err != nil || bad != nil || fmt.Sprint(back) != fmt.Sprint(twin) {
				t.Fatalf("%v: %v, %v instead of %v, %v", leaves, back, err, twin, bad)
			}
		}
	})
}

// FuzzReply: bytes that are no message are an error for both, and a message is read the
// same by both, except fields that come twice.
func FuzzReply(f *testing.F) {
	m := toy(f).methods["DatanodeProtocol.echo"]
	whole, err := m.in.encode(nil, everyKind)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		twin, bad := twinDecode(m.in.kind, b)
		got, err := m.in.decode(b)
		if bad == nil && err != nil {
			t.Fatalf("%x: %v, and the twin reads %v", b, err, twin)
		}
		if canonical, err := twinEncode(m.in.kind, twin); bad != nil || err != nil || !bytes.Equal(canonical, b) {
			return
		}
		if fmt.Sprint(got) != fmt.Sprint(twin) {
			t.Fatalf("%x: %v instead of %v", b, got, twin)
		}
	})
}

// BenchmarkEncode encodes a heartbeat of a data node, with other names.
func BenchmarkEncode(b *testing.B) {
	m := toy(b).methods["DatanodeProtocol.echo"]
	leaves := slices.Clone(everyKind)
	for i := range 24 {
		leaves = append(leaves, trace.Leaf{Path: fmt.Sprintf("inner[%d].id", i+2), Kind: trace.Int, Value: strconv.Itoa(i)})
	}
	b.Run("shapes/33leaves", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = m.in.encode(buf[:0], leaves)
		}
	})
	b.Run("dynamic/33leaves", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = twinEncode(m.in.kind, leaves)
		}
	})
	whole, _ := m.in.encode(nil, leaves)
	b.Run("decode/33leaves", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = m.in.decode(whole)
		}
	})
	b.Run("decode-dynamic/33leaves", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = twinDecode(m.in.kind, whole)
		}
	})
}
