package hadoop

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Descriptors collects the message descriptors in jars. YARN's .proto files are in
// no published jar, but every class that protoc generated has its file's descriptor
// as string constants.
func Descriptors(jars string) (*descriptorpb.FileDescriptorSet, error) {
	names, err := filepath.Glob(filepath.Join(jars, "hadoop-*.jar"))
	if err != nil || len(names) == 0 {
		return nil, errors.Join(fmt.Errorf("hadoop: no jars in %s", jars), err)
	}
	slices.Sort(names)
	files := map[string]*descriptorpb.FileDescriptorProto{}
	for _, name := range names {
		if err := jarDescriptors(name, files); err != nil {
			return nil, fmt.Errorf("hadoop: %s: %w", filepath.Base(name), err)
		}
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range files {
		set.File = append(set.File, f)
	}
	slices.SortFunc(set.File, func(a, b *descriptorpb.FileDescriptorProto) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return set, nil
}

// jarDescriptors adds the descriptors of a jar. What Hadoop repackaged from other
// projects is left out: it is elsewhere under the same names.
func jarDescriptors(jar string, into map[string]*descriptorpb.FileDescriptorProto) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		inner := strings.Contains(filepath.Base(f.Name), "$") // descriptors are in the outer class
		if !strings.HasSuffix(f.Name, ".class") || inner || strings.Contains(f.Name, "/thirdparty/") {
			continue
		}
		class, err := unzip(f)
		if err != nil {
			return err
		}
		for _, d := range classDescriptors(class) {
			if into[d.GetName()] == nil {
				into[d.GetName()] = d
			}
		}
	}
	return nil
}

func unzip(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// classDescriptors finds the descriptors in one compiled class. A long one is
// cut into several consecutive constants.
func classDescriptors(class []byte) []*descriptorpb.FileDescriptorProto {
	if !bytes.Contains(class, []byte(".proto")) {
		return nil
	}
	constants := stringConstants(class)
	var out []*descriptorpb.FileDescriptorProto
	for i := 0; i < len(constants); i++ {
		if !beginsDescriptor(constants[i]) {
			continue
		}
		var whole []byte
		for k := i; k < len(constants); k++ {
			whole = append(whole, constants[k]...)
			d := &descriptorpb.FileDescriptorProto{}
			if proto.Unmarshal(whole, d) == nil && len(d.ProtoReflect().GetUnknown()) == 0 {
				out, i = append(out, d), k
				break
			}
		}
	}
	return out
}

// beginsDescriptor reports whether the first field is the name of a .proto file.
func beginsDescriptor(s []byte) bool {
	if len(s) < 8 || s[0] != 0x0a || len(s) < 2+int(s[1]) {
		return false
	}
	return bytes.HasSuffix(s[2:2+s[1]], []byte(".proto"))
}

// The tags of a class file's constants (JVM specification §4.4).
const (
	tagUTF8   = 1
	tagString = 8
)

// constantSize is how many bytes follow the tag of each constant but UTF8's.
var constantSize = map[byte]int{3: 4, 4: 4, 5: 8, 6: 8, 7: 2, tagString: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}

// stringConstants returns the string constants of a class in the order of its
// pool, each character as a byte; nil if it is not a class.
func stringConstants(class []byte) [][]byte {
	if len(class) < 10 || binary.BigEndian.Uint32(class) != 0xcafebabe {
		return nil
	}
	count := int(binary.BigEndian.Uint16(class[8:]))
	text := make(map[int][]byte)
	var strings []int
	rest := class[10:]
	for i := 1; i < count && len(rest) > 0; i++ {
		tag := rest[0]
		size, fixed := constantSize[tag]
		if tag == tagUTF8 && len(rest) >= 3 {
			size, fixed = 2+int(binary.BigEndian.Uint16(rest[1:])), true
		}
		if !fixed || len(rest) < 1+size {
			return nil
		}
		switch tag {
		case tagUTF8:
			text[i] = rest[3 : 1+size]
		case tagString:
			strings = append(strings, int(binary.BigEndian.Uint16(rest[1:])))
		case 5, 6:
			i++ // a long and a double take two places
		}
		rest = rest[1+size:]
	}
	out := make([][]byte, len(strings))
	for i, at := range strings {
		out[i] = latin1(text[at])
	}
	return out
}

// latin1 converts a string in Java's modified UTF-8 back to bytes, up to the first
// character that is none.
func latin1(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x80:
			out = append(out, c)
		case c&^0x03 == 0xc0 && i+1 < len(s):
			i++
			out = append(out, c<<6|s[i]&0x3f)
		default:
			return out
		}
	}
	return out
}
