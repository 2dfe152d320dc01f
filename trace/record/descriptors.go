package record

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"gleaner/trace"
)

// Descriptors has the message types of a server's methods. The zero value has none, and
// leaves messages as bytes.
type Descriptors struct {
	methods map[string]protoreflect.MethodDescriptor // by "package.Service/Name"
}

// Methods counts the methods known.
func (d *Descriptors) Methods() int { return len(d.methods) }

// ReadDescriptors reads a serialised FileDescriptorSet, as 'protoc
// --include_imports --descriptor_set_out' writes it.
func ReadDescriptors(set []byte) (*Descriptors, error) {
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &files); err != nil {
		return nil, fmt.Errorf("not a descriptor set: %w", err)
	}
	return fromFiles(files.File)
}

// AskDescriptors asks a server for its descriptors by reflection.
func AskDescriptors(ctx context.Context, conn grpc.ClientConnInterface) (*Descriptors, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("reflection: %w", err)
	}
	ask := func(r *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
		if err := stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reflection: %w", err)
		}
		reply, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("reflection: %w", err)
		}
		if e := reply.GetErrorResponse(); e != nil {
			return nil, fmt.Errorf("reflection: %s", e.ErrorMessage)
		}
		return reply, nil
	}
	list, err := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, err
	}
	files := map[string]*descriptorpb.FileDescriptorProto{}
	for _, service := range list.GetListServicesResponse().GetService() {
		reply, err := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.Name}})
		if err != nil {
			return nil, err
		}
		if err := collect(files, reply, ask); err != nil {
			return nil, err
		}
	}
	all := make([]*descriptorpb.FileDescriptorProto, 0, len(files))
	for _, f := range files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *descriptorpb.FileDescriptorProto) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return fromFiles(all)
}

// collect adds the files of a reply, and requests those they depend on.
func collect(files map[string]*descriptorpb.FileDescriptorProto, reply *reflection.ServerReflectionResponse,
	ask func(*reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error)) error {
	var missing []string
	for _, raw := range reply.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var f descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("reflection: %w", err)
		}
		if files[f.GetName()] == nil {
			files[f.GetName()] = &f
			missing = append(missing, f.Dependency...)
		}
	}
	for _, name := range missing {
		if files[name] != nil {
			continue
		}
		reply, err := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
		if err != nil {
			return err
		}
		if err := collect(files, reply, ask); err != nil {
			return err
		}
	}
	return nil
}

func fromFiles(all []*descriptorpb.FileDescriptorProto) (*Descriptors, error) {
	files, err := protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(&descriptorpb.FileDescriptorSet{File: all})
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	return fromRegistry(files), nil
}

func fromRegistry(files *protoregistry.Files) *Descriptors {
	d := &Descriptors{methods: map[string]protoreflect.MethodDescriptor{}}
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for k := range service.Methods().Len() {
				m := service.Methods().Get(k)
				d.methods[string(service.FullName())+"/"+string(m.Name())] = m
			}
		}
		return true
	})
	return d
}

// Decode gives the leaves of a message; its bytes if the method is not known.
func (d *Descriptors) Decode(method string, answer bool, message []byte) []trace.Leaf {
	known := d.methods[method]
	if known == nil {
		return []trace.Leaf{rawLeaf("", message)}
	}
	kind := known.Input()
	if answer {
		kind = known.Output()
	}
	m := dynamicpb.NewMessage(kind)
	if err := proto.Unmarshal(message, m); err != nil {
		return []trace.Leaf{rawLeaf("", message)}
	}
	return leaves(nil, "", m)
}

// leaves flattens a message, its fields in the order of their numbers. An empty message
// becomes the leaf "path{}".
func leaves(into []trace.Leaf, path string, m protoreflect.Message) []trace.Leaf {
	type set struct {
		field protoreflect.FieldDescriptor
		value protoreflect.Value
	}
	var fields []set
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		fields = append(fields, set{f, v})
		return true
	})
	if len(fields) == 0 && path != "" {
		return append(into, trace.Leaf{Path: path + "{}", Kind: trace.Bool, Value: "true"})
	}
	slices.SortFunc(fields, func(a, b set) int { return cmp.Compare(a.field.Number(), b.field.Number()) })
	for _, s := range fields {
		into = fieldLeaves(into, join(path, string(s.field.Name())), s.field, s.value)
	}
	return into
}

func fieldLeaves(into []trace.Leaf, path string, f protoreflect.FieldDescriptor, v protoreflect.Value) []trace.Leaf {
	switch {
	case f.IsList():
		for i := range v.List().Len() {
			into = valueLeaves(into, path+"["+strconv.Itoa(i)+"]", f, v.List().Get(i))
		}
		return into
	case f.IsMap():
		var keys []protoreflect.MapKey
		v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
			keys = append(keys, k)
			return true
		})
		slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
		for _, k := range keys {
			into = valueLeaves(into, join(path, k.String()), f.MapValue(), v.Map().Get(k))
		}
		return into
	}
	return valueLeaves(into, path, f, v)
}

func valueLeaves(into []trace.Leaf, path string, f protoreflect.FieldDescriptor, v protoreflect.Value) []trace.Leaf {
	leaf := trace.Leaf{Path: path, Kind: trace.Int}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return leaves(into, path, v.Message())
	case protoreflect.BytesKind:
		leaf = rawLeaf(path, v.Bytes())
	case protoreflect.StringKind:
		leaf.Kind, leaf.Value = trace.String, v.String()
	case protoreflect.BoolKind:
		leaf.Kind, leaf.Value = trace.Bool, strconv.FormatBool(v.Bool())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if leaf.Kind = trace.Float; math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			leaf.Kind = trace.String // JSON has no number for it
		}
		leaf.Value = strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case protoreflect.EnumKind:
		leaf.Value = strconv.Itoa(int(v.Enum()))
		if name := f.Enum().Values().ByNumber(v.Enum()); name != nil {
			leaf.Kind, leaf.Value = trace.String, string(name.Name())
		}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		leaf.Value = strconv.FormatUint(v.Uint(), 10)
	default:
		leaf.Value = strconv.FormatInt(v.Int(), 10)
	}
	return append(into, leaf)
}

// rawLeaf shows bytes as text where they are printable, and in base64 otherwise.
func rawLeaf(path string, b []byte) trace.Leaf {
	if path == "" {
		path = "bytes"
	}
	printable := utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if printable && !strings.HasPrefix(string(b), "base64:") {
		return trace.Leaf{Path: path, Kind: trace.String, Value: string(b)}
	}
	return trace.Leaf{Path: path, Kind: trace.String, Value: "base64:" + base64.StdEncoding.EncodeToString(b)}
}

var escape = strings.NewReplacer(".", `\.`, "[", `\[`, `\`, `\\`)

func join(path, key string) string {
	key = escape.Replace(key)
	if path == "" {
		return key
	}
	return path + "." + key
}
