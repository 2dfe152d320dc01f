package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A half reads one direction of an HTTP/2 connection.
type half struct {
	waiting []byte // bytes of a frame that is not whole yet
	preface bool   // the client's preface has not come yet
	headers *hpack.Decoder
	block   []byte // header fragments until the last
	stream  uint32 // the stream of the fragments
	ends    bool   // the stream ends with them
}

// An event is what one frame means to a stream. One of its fields is set.
type event struct {
	stream  uint32
	headers []hpack.HeaderField
	data    []byte
	end     bool // of this direction; may come with headers or data
	reset   bool
}

// maxFrame is the largest frame accepted. Peers may agree on more, but no gRPC does.
const maxFrame = 16 << 20

func newHalf(client bool) *half {
	h := &half{preface: client, headers: hpack.NewDecoder(4096, nil)}
	// The size that the peers agreed on is not known here; each size they use is announced in the stream.
	h.headers.SetAllowedMaxDynamicTableSize(1 << 24)
	return h
}

// feed takes the next bytes and calls on with each event they complete.
func (h *half) feed(b []byte, on func(event)) error {
	h.waiting = append(h.waiting, b...)
	if h.preface {
		greeting := []byte(http2.ClientPreface)
		if !bytes.HasPrefix(h.waiting, greeting[:min(len(h.waiting), len(greeting))]) {
			return errors.New("record: not HTTP/2: no client preface")
		}
		if len(h.waiting) < len(greeting) {
			return nil
		}
		h.waiting, h.preface = h.waiting[len(greeting):], false
	}
	for len(h.waiting) >= 9 {
		length := int(h.waiting[0])<<16 | int(h.waiting[1])<<8 | int(h.waiting[2])
		if length > maxFrame {
			return fmt.Errorf("record: not HTTP/2: a frame of %d bytes", length)
		}
		if len(h.waiting) < 9+length {
			break
		}
		if err := h.frame(h.waiting[:9+length], on); err != nil {
			return err
		}
		h.waiting = h.waiting[9+length:]
	}
	h.waiting = bytes.Clone(h.waiting) // frees the bytes that were read
	return nil
}

func (h *half) frame(whole []byte, on func(event)) error {
	framer := http2.NewFramer(io.Discard, bytes.NewReader(whole))
	framer.SetMaxReadFrameSize(maxFrame)
	framer.AllowIllegalReads = true // each frame is read alone, without those before
	f, err := framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	switch f := f.(type) {
	case *http2.HeadersFrame:
		h.block, h.stream, h.ends = append(h.block[:0], f.HeaderBlockFragment()...), f.StreamID, f.StreamEnded()
		return h.fragment(f.HeadersEnded(), on)
	case *http2.ContinuationFrame:
		h.block = append(h.block, f.HeaderBlockFragment()...)
		return h.fragment(f.HeadersEnded(), on)
	case *http2.DataFrame:
		on(event{stream: f.StreamID, data: f.Data(), end: f.StreamEnded()})
	case *http2.RSTStreamFrame:
		on(event{stream: f.StreamID, reset: true})
	}
	return nil
}

// fragment decodes the headers when the last fragment has come.
func (h *half) fragment(last bool, on func(event)) error {
	if !last {
		return nil
	}
	fields, err := h.headers.DecodeFull(h.block)
	if err != nil {
		return fmt.Errorf("record: headers: %w", err)
	}
	on(event{stream: h.stream, headers: fields, end: h.ends})
	return nil
}

// messages cuts the data of one direction of a stream into gRPC messages.
type messages struct {
	waiting []byte
}

// feed takes the next bytes and calls on with each message they complete.
func (m *messages) feed(b []byte, on func(compressed bool, message []byte)) error {
	m.waiting = append(m.waiting, b...)
	for len(m.waiting) >= 5 {
		length := binary.BigEndian.Uint32(m.waiting[1:5])
		if length > maxBehind {
			return fmt.Errorf("record: a message of %d bytes", length)
		}
		if len(m.waiting) < 5+int(length) {
			return nil
		}
		on(m.waiting[0] == 1, bytes.Clone(m.waiting[5:5+length]))
		m.waiting = m.waiting[5+length:]
	}
	return nil
}
