package hadooprpc

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"gleaner/trace"
)

// A protocol is one of the interfaces a master offers.
type protocol struct {
	java    string // its name in the server
	service string // its name in the descriptors
	port    int    // added to the first of its master's ports
}

// protocols has them by their names in recordings.
var protocols = map[string]protocol{
	"ClientProtocol":              {java: "org.apache.hadoop.hdfs.protocol.ClientProtocol", service: "hadoop.hdfs.ClientNamenodeProtocol"},
	"DatanodeProtocol":            {java: "org.apache.hadoop.hdfs.server.protocol.DatanodeProtocol", service: "hadoop.hdfs.datanode.DatanodeProtocolService"},
	"ApplicationMasterProtocol":   {java: "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB", service: "hadoop.yarn.ApplicationMasterProtocolService"},
	"ResourceTracker":             {java: "org.apache.hadoop.yarn.server.api.ResourceTrackerPB", service: "hadoop.yarn.ResourceTrackerService", port: 1},
	"ApplicationClientProtocol":   {java: "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB", service: "hadoop.yarn.ApplicationClientProtocolService", port: 2},
	"ContainerManagementProtocol": {java: "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB", service: "hadoop.yarn.ContainerManagementProtocolService"},
}

// A Schema has the message types of the protocols.
type Schema struct {
	methods map[string]method // by "Protocol.method", as recorded
}

type method struct {
	protocol protocol
	name     string
	header   []byte // the same in every call
	in, out  *shapes
}

// ReadSchema reads a serialised FileDescriptorSet.
func ReadSchema(set []byte) (*Schema, error) {
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &files); err != nil {
		return nil, fmt.Errorf("not a descriptor set: %w", err)
	}
	return NewSchema(&files)
}

// NewSchema finds the protocols in a descriptor set. Each is read with the
// files it needs and no others, because some files declare the same name.
func NewSchema(set *descriptorpb.FileDescriptorSet) (*Schema, error) {
	byName, owner := map[string]*descriptorpb.FileDescriptorProto{}, map[string]string{}
	for _, f := range set.File {
		byName[f.GetName()] = f
		for _, s := range f.Service {
			owner[strings.TrimPrefix(f.GetPackage()+"."+s.GetName(), ".")] = f.GetName()
		}
	}
	out := &Schema{methods: map[string]method{}}
	for name, p := range protocols {
		file, ok := owner[p.service]
		if !ok {
			continue
		}
		if err := out.add(name, p, closure(byName, file)); err != nil {
			return nil, fmt.Errorf("descriptors of %s: %w", name, err)
		}
	}
	if len(out.methods) == 0 {
		return nil, fmt.Errorf("the descriptor set holds no protocol of a NameNode or a Resource Manager")
	}
	return out, nil
}

// closure is a file and all it depends on.
func closure(byName map[string]*descriptorpb.FileDescriptorProto, file string) *descriptorpb.FileDescriptorSet {
	out := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		f := byName[name]
		if f == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, d := range f.Dependency {
			walk(d)
		}
		out.File = append(out.File, f)
	}
	walk(file)
	return out
}

func (s *Schema) add(name string, p protocol, set *descriptorpb.FileDescriptorSet) error {
	files, err := protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(set)
	if err != nil {
		return err
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(p.service))
	if err != nil {
		return err
	}
	service, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return fmt.Errorf("%s is not a service", p.service)
	}
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		s.methods[name+"."+string(m.Name())] = method{protocol: p, name: string(m.Name()), header: methodHeader{string(m.Name()), p.java}.append(nil),
			in: &shapes{kind: m.Input()}, out: &shapes{kind: m.Output()}}
	}
	return nil
}

// Methods lists what can be called.
func (s *Schema) Methods() []string {
	out := make([]string, 0, len(s.methods))
	for name := range s.methods {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Knows is an error for a method that cannot be called.
func (s *Schema) Knows(name string) error {
	_, err := s.method(name)
	return err
}

// Encode makes a method's request or reply of leaves.
func (s *Schema) Encode(name string, answer bool, leaves []trace.Leaf) ([]byte, error) {
	m, err := s.method(name)
	if err != nil {
		return nil, err
	}
	return m.message(answer).encode(nil, leaves)
}

// Decode gives the leaves of a message.
func (s *Schema) Decode(name string, answer bool, message []byte) ([]trace.Leaf, error) {
	m, err := s.method(name)
	if err != nil {
		return nil, err
	}
	return m.message(answer).decode(message)
}

func (m method) message(answer bool) *shapes {
	if answer {
		return m.out
	}
	return m.in
}

func (s *Schema) method(name string) (method, error) {
	m, ok := s.methods[name]
	if !ok {
		return m, fmt.Errorf("hadoop: the descriptors lack the method %q", name)
	}
	return m, nil
}
