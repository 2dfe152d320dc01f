package grpccall

import (
	"context"
	"time"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"gleaner/trace"
	"gleaner/trace/record"
)

// codec is gRPC's usual one, but for a raw message: most replies are read by nobody, and need not be decoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*raw); ok {
		*m = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// raw is a message as it came.
type raw []byte

// leaves decodes it. Of one that is broken they are those before the break.
func (m raw) leaves(kind protoreflect.MessageDescriptor) []trace.Leaf {
	message := dynamicpb.NewMessage(kind)
	_ = proto.Unmarshal(m, message) // who misses a leaf says so
	return record.Leaves(message)
}

// untimed hides when a context ends: gRPC would tell the target with each call, and who was recorded may not have.
type untimed struct{ context.Context }

func (untimed) Deadline() (time.Time, bool) { return time.Time{}, false }
