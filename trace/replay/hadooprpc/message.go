package hadooprpc

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"gleaner/trace"
)

// decode gives the leaves of a message.
func (s *shapes) decode(b []byte) ([]trace.Leaf, error) { return decode(nil, "", s.kind, b) }

// decode appends the leaves of a message, in the form of the recordings and in
// the order they came.
func decode(into []trace.Leaf, prefix string, kind protoreflect.MessageDescriptor, b []byte) (_ []trace.Leaf, err error) {
	var lists map[protoreflect.FieldNumber]int // how many elements came
	for len(b) > 0 {
		num, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, wire, b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		value := b[:n]
		b = b[n:]
		f := kind.Fields().ByNumber(num)
		if f == nil || f.IsMap() {
			continue // a field of a newer version
		}
		path := prefix + string(f.Name())
		if !f.IsList() {
			if into, err = decodeValue(into, path, f, wire, value); err != nil {
				return nil, err
			}
			continue
		}
		if lists == nil {
			lists = map[protoreflect.FieldNumber]int{}
		}
		for _, element := range elements(f, wire, value) {
			if into, err = decodeValue(into, path+"["+strconv.Itoa(lists[num])+"]", f, wireType(f), element); err != nil {
				return nil, err
			}
			lists[num]++
		}
	}
	return into, nil
}

// elements splits packed numbers.
func elements(f protoreflect.FieldDescriptor, wire protowire.Type, value []byte) [][]byte {
	own := wireType(f)
	if wire == own {
		return [][]byte{value}
	}
	if wire != protowire.BytesType {
		return nil
	}
	var out [][]byte
	packed, _ := protowire.ConsumeBytes(value)
	for len(packed) > 0 {
		n := protowire.ConsumeFieldValue(f.Number(), own, packed)
		if n < 0 {
			break
		}
		out, packed = append(out, packed[:n]), packed[n:]
	}
	return out
}

func wireType(f protoreflect.FieldDescriptor) protowire.Type {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.StringKind, protoreflect.BytesKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}

// decodeValue appends the leaf of a value, or the leaves of a message. value is
// well formed.
func decodeValue(into []trace.Leaf, path string, f protoreflect.FieldDescriptor, wire protowire.Type, value []byte) ([]trace.Leaf, error) {
	if wire != wireType(f) || f.Kind() == protoreflect.GroupKind {
		return into, nil // a field of another version
	}
	leaf := trace.Leaf{Path: path}
	switch wire {
	case protowire.BytesType:
		raw, _ := protowire.ConsumeBytes(value)
		if f.Kind() == protoreflect.MessageKind {
			return decode(into, path+".", f.Message(), raw)
		}
		leaf.Kind, leaf.Value = trace.String, string(raw)
		if f.Kind() == protoreflect.BytesKind {
			leaf.Value = bytesText(raw)
		}
	case protowire.Fixed32Type:
		x, _ := protowire.ConsumeFixed32(value)
		leaf.Kind, leaf.Value = fixed32(f.Kind(), x)
	case protowire.Fixed64Type:
		x, _ := protowire.ConsumeFixed64(value)
		leaf.Kind, leaf.Value = fixed64(f.Kind(), x)
	default:
		x, _ := protowire.ConsumeVarint(value)
		leaf.Kind, leaf.Value = varied(f, x)
	}
	return append(into, leaf), nil
}

func fixed32(kind protoreflect.Kind, x uint32) (trace.Kind, string) {
	switch kind {
	case protoreflect.FloatKind:
		return trace.Float, floatText(float64(math.Float32frombits(x)), 32)
	case protoreflect.Sfixed32Kind:
		return trace.Int, strconv.FormatInt(int64(int32(x)), 10)
	}
	return trace.Int, strconv.FormatUint(uint64(x), 10)
}

func fixed64(kind protoreflect.Kind, x uint64) (trace.Kind, string) {
	switch kind {
	case protoreflect.DoubleKind:
		return trace.Float, floatText(math.Float64frombits(x), 64)
	case protoreflect.Sfixed64Kind:
		return trace.Int, strconv.FormatInt(int64(x), 10)
	}
	return trace.Int, strconv.FormatUint(x, 10)
}

// varied reads a value that was written as a varint.
func varied(f protoreflect.FieldDescriptor, x uint64) (trace.Kind, string) {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return trace.Bool, strconv.FormatBool(protowire.DecodeBool(x))
	case protoreflect.EnumKind:
		n := protoreflect.EnumNumber(int32(x))
		if known := f.Enum().Values().ByNumber(n); known != nil {
			return trace.String, string(known.Name())
		}
		return trace.Int, strconv.Itoa(int(n))
	case protoreflect.Sint32Kind:
		return trace.Int, strconv.FormatInt(int64(int32(protowire.DecodeZigZag(x&math.MaxUint32))), 10)
	case protoreflect.Sint64Kind:
		return trace.Int, strconv.FormatInt(protowire.DecodeZigZag(x), 10)
	case protoreflect.Int32Kind:
		return trace.Int, strconv.FormatInt(int64(int32(x)), 10)
	case protoreflect.Uint32Kind:
		return trace.Int, strconv.FormatUint(uint64(uint32(x)), 10)
	case protoreflect.Uint64Kind:
		return trace.Int, strconv.FormatUint(x, 10)
	}
	return trace.Int, strconv.FormatInt(int64(x), 10)
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
