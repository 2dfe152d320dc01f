package main

import (
	"io"
	"path"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ours are the packages that etcd's messages are in.
var ours = []protoreflect.FullName{"authpb", "mvccpb", "versionpb", "membershippb", "etcdserverpb"}

// writeDescriptors writes the descriptors of etcd's services, which etcd does
// not tell by reflection. They are those this program is linked with.
func writeDescriptors(w io.Writer) error {
	var set descriptorpb.FileDescriptorSet
	known := map[string]bool{}
	for _, name := range ours {
		protoregistry.GlobalFiles.RangeFilesByPackage(name, func(f protoreflect.FileDescriptor) bool {
			known[f.Path()] = true
			set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
			return true
		})
	}
	for _, f := range set.File {
		// The files are registered by their last name and import each other by their full one.
		for i, name := range f.Dependency {
			if short := path.Base(name); known[short] {
				f.Dependency[i] = short
			}
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&set)
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}
