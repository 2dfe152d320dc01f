package hadooprpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxFrame is the largest frame accepted, as a NameNode's ipc.maximum.data.length.
const maxFrame = 64 << 20

// Call numbers with a special meaning.
const (
	callContext = -3
	callPing    = -4
	callSASL    = -33
)

// The kinds of login a preamble announces.
const (
	authNone = 0
	authSASL = 0xdf
)

var (
	errFrame   = errors.New("a frame that is not Hadoop RPC")
	errForeign = errors.New("the other side does not speak Hadoop RPC version 9")
)

func preamble(auth byte) []byte { return []byte{'h', 'r', 'p', 'c', 9, 0, auth} }

// frame puts messages into a frame, each behind its length.
func frame(messages ...[]byte) []byte { return appendFrame(make([]byte, 0, 64), messages...) }

// appendFrame appends a frame.
func appendFrame(b []byte, messages ...[]byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, m := range messages {
		b = protowire.AppendBytes(b, m)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// readFrame reads the next frame. Memory is allocated as the frame arrives, because a
// sender may announce any length.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes long", errFrame, size)
	}
	if size <= 1<<16 {
		buf := make([]byte, size)
		_, err := io.ReadFull(r, buf)
		return buf, cut(err)
	}
	buf, err := io.ReadAll(io.LimitReader(r, size))
	if err == nil && int64(len(buf)) < size {
		err = io.ErrUnexpectedEOF
	}
	return buf, err
}

// cut tells a frame that ends too early from a connection that ends between frames.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// next takes the next message off a frame.
func next(buf []byte) (message, rest []byte, err error) {
	m, n := protowire.ConsumeBytes(buf)
	if n < 0 {
		return nil, nil, fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
	}
	return m, buf[n:], nil
}

// A requestHeader is the header of a call (RpcRequestHeaderProto).
type requestHeader struct {
	call   int32
	client []byte
}

func (h requestHeader) append(b []byte) []byte {
	b = varint(b, 1, 2) // protocol buffers
	b = varint(b, 2, 0) // the last packet
	b = varint(b, 3, protowire.EncodeZigZag(int64(h.call)))
	b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), h.client)
	return varint(b, 5, protowire.EncodeZigZag(0)) // no retry
}

func (h *requestHeader) parse(b []byte) error {
	return fields(b, func(num protowire.Number, v uint64, s []byte) {
		switch num {
		case 3:
			h.call = int32(protowire.DecodeZigZag(v))
		case 4:
			h.client = s
		}
	})
}

// The status of a reply (RpcStatusProto).
const (
	succeeded = 0
	failed    = 1
	fatal     = 2
)

// A responseHeader is the header of a reply (RpcResponseHeaderProto).
type responseHeader struct {
	call           int32
	status         uint64
	class, message string
	client         []byte
}

func (h responseHeader) append(b []byte) []byte {
	b = varint(b, 1, uint64(uint32(h.call)))
	b = varint(b, 2, h.status)
	b = varint(b, 3, 9)
	if h.status != succeeded {
		b = text(text(b, 4, h.class), 5, h.message)
		b = varint(b, 6, 1) // an error of the application
	}
	b = protowire.AppendBytes(protowire.AppendTag(b, 7, protowire.BytesType), h.client)
	return varint(b, 8, protowire.EncodeZigZag(-1))
}

func (h *responseHeader) parse(b []byte) error {
	return fields(b, func(num protowire.Number, v uint64, s []byte) {
		switch num {
		case 1:
			h.call = int32(uint32(v))
		case 2:
			h.status = v
		case 4:
			h.class = string(s)
		case 5:
			h.message = string(s)
		}
	})
}

// connectionContext names the user and the protocol (IpcConnectionContextProto).
func connectionContext(user, protocol string) []byte {
	var out []byte
	if user != "" {
		out = protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), text(nil, 1, user))
	}
	return text(out, 3, protocol)
}

// A methodHeader names the method a request is for (RequestHeaderProto).
type methodHeader struct{ method, protocol string }

func (h methodHeader) append(b []byte) []byte {
	return varint(text(text(b, 1, h.method), 2, h.protocol), 3, 1)
}

func (h *methodHeader) parse(b []byte) error {
	return fields(b, func(num protowire.Number, _ uint64, s []byte) {
		switch num {
		case 1:
			h.method = string(s)
		case 2:
			h.protocol = string(s)
		}
	})
}

func varint(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func text(b []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

// fields visits the varints and bytes of a message.
func fields(b []byte, visit func(num protowire.Number, v uint64, s []byte)) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		b = b[n:]
		var v uint64
		var s []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			s, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		visit(num, v, s)
		b = b[n:]
	}
	return nil
}
