package nbd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"gleaner/fabric/conn"
)

const (
	maxOption     = 64 << 10 // what an option is read up to
	readAhead     = 128 << 10
	allocation    = "base:allocation"
	allocationID  = 1
	allFlags      = hasFlags | canFlush | canFUA | canTrim | canWriteZeroes
	unusedByNames = 124 // zeroes that end the answer to EXPORT_NAME for a client that wants them
)

// errLeft is the end of a connection whose client said that it leaves.
var errLeft = errors.New("the client left")

// A handshake is what a client and the server have agreed upon so far.
type handshake struct {
	exports   Exports
	open      func(context.Context, string) (*opened, error)
	tlsConfig *tls.Config // not nil: the client must start TLS first
	conn      net.Conn
	in        *bufio.Reader
	out       *conn.Replies

	noZeroes   bool // leave out the zeroes that end the answer to EXPORT_NAME
	structured bool
	contextFor *string // the export that base:allocation was chosen for
}

// A session is what a handshake ends in.
type session struct {
	*opened
	export     Export
	structured bool
	allocation bool // base:allocation was chosen
}

func newHandshake(conn net.Conn) *handshake {
	h := &handshake{}
	h.speakOver(conn)
	return h
}

// speakOver goes on over another connection, with nothing agreed upon.
func (h *handshake) speakOver(c net.Conn) {
	h.conn = c
	h.out = conn.NewReplies(c)
	h.in = bufio.NewReaderSize(h.out, readAhead)
	h.structured, h.contextFor = false, nil
}

// An option is one step of the client's.
type option struct {
	kind uint32
	data []byte
}

// negotiate speaks with a client until it has opened an export.
func (h *handshake) negotiate(ctx context.Context) (*session, error) {
	greeting := binary.BigEndian.AppendUint64(nil, magicGreeting)
	greeting = binary.BigEndian.AppendUint64(greeting, magicOption)
	h.out.Add(binary.BigEndian.AppendUint16(greeting, flagFixedNewstyle|flagNoZeroes), nil)
	var flags [4]byte
	if _, err := io.ReadFull(h.in, flags[:]); err != nil {
		return nil, err
	}
	f := binary.BigEndian.Uint32(flags[:])
	if f&^(flagFixedNewstyle|flagNoZeroes) != 0 {
		return nil, fmt.Errorf("unknown client flags %#x", f)
	}
	h.noZeroes = f&flagNoZeroes != 0
	for {
		o, err := h.next()
		if err != nil {
			return nil, err
		}
		if s, err := h.answer(ctx, o); s != nil || err != nil {
			return s, err
		}
	}
}

// next reads an option. One that is too long is refused and passed over.
func (h *handshake) next() (option, error) {
	for {
		var head [16]byte
		if _, err := io.ReadFull(h.in, head[:]); err != nil {
			return option{}, err
		}
		if magic := binary.BigEndian.Uint64(head[:]); magic != magicOption {
			return option{}, fmt.Errorf("an option begins with %#x", magic)
		}
		o := option{kind: binary.BigEndian.Uint32(head[8:])}
		length := int(binary.BigEndian.Uint32(head[12:]))
		switch {
		case length <= maxOption:
			o.data = make([]byte, length)
			_, err := io.ReadFull(h.in, o.data)
			return o, err
		case length > maxPayload || o.kind == optExportName:
			return option{}, fmt.Errorf("option %d with %d bytes", o.kind, length)
		}
		if _, err := h.in.Discard(length); err != nil {
			return option{}, err
		}
		h.refuse(o, repErrTooBig, "the option is too long")
	}
}

// answer answers an option. It gives a session when that opened an export.
func (h *handshake) answer(ctx context.Context, o option) (*session, error) {
	switch {
	case o.kind == optAbort:
		h.reply(o, repAck)
		h.out.Flush() // it may be gone already, which is allowed
		return nil, errLeft
	case o.kind == optStartTLS:
		return nil, h.startTLS(ctx, o)
	case h.tlsMissing() && o.kind == optExportName:
		return nil, errors.New("an export was asked for without TLS")
	case h.tlsMissing():
		h.refuse(o, repErrTLSReqd, "start TLS first")
		return nil, nil
	}
	switch o.kind {
	case optExportName:
		return h.exportName(ctx, o)
	case optInfo, optGo:
		return h.infoOrGo(ctx, o)
	case optList:
		h.list(ctx, o)
	case optStructured:
		h.structuredReplies(o)
	case optListMeta, optSetMeta:
		h.metaContexts(ctx, o)
	default:
		h.refuse(o, repErrUnsup, "unknown option")
	}
	return nil, nil
}

func (h *handshake) tlsMissing() bool {
	_, started := h.conn.(*tls.Conn)
	return h.tlsConfig != nil && !started
}

// startTLS goes on under TLS. What the client sent before its answer came
// would be read as if it had been encrypted: that ends the connection.
func (h *handshake) startTLS(ctx context.Context, o option) error {
	switch {
	case h.tlsConfig == nil:
		h.refuse(o, repErrPolicy, "this server has no certificate")
		return nil
	case !h.tlsMissing() || len(o.data) > 0:
		h.refuse(o, repErrInvalid, "TLS was started before, or data came with STARTTLS")
		return nil
	case h.in.Buffered() > 0:
		return errors.New("the client spoke on before TLS was started")
	}
	h.reply(o, repAck)
	if err := h.out.Flush(); err != nil {
		return err
	}
	secure := tls.Server(h.conn, h.tlsConfig)
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	h.speakOver(secure)
	return nil
}

func (h *handshake) structuredReplies(o option) {
	if len(o.data) > 0 {
		h.refuse(o, repErrInvalid, "STRUCTURED_REPLY takes no data")
		return
	}
	h.structured = true
	h.reply(o, repAck)
}

func (h *handshake) list(ctx context.Context, o option) {
	if len(o.data) > 0 {
		h.refuse(o, repErrInvalid, "LIST takes no data")
		return
	}
	exports, err := h.exports.List(ctx)
	if err != nil {
		h.refuse(o, repErrPolicy, err.Error())
		return
	}
	for _, e := range exports {
		h.reply(o, repServer, binary.BigEndian.AppendUint32(nil, uint32(len(e.Name))), []byte(e.Name), []byte(e.Description))
	}
	h.reply(o, repAck)
}

// exportName opens an export in the old way, which cannot refuse: an error ends the
// connection.
func (h *handshake) exportName(ctx context.Context, o option) (*session, error) {
	s, err := h.enter(ctx, string(o.data))
	if err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint64(nil, uint64(s.export.Size))
	head = binary.BigEndian.AppendUint16(head, s.flags())
	if !h.noZeroes {
		head = append(head, make([]byte, unusedByNames)...)
	}
	h.out.Add(head, nil)
	return s, nil
}

// infoOrGo tells of an export, and opens it for GO.
func (h *handshake) infoOrGo(ctx context.Context, o option) (*session, error) {
	name, wanted, ok := parseInfo(o.data)
	if !ok {
		h.refuse(o, repErrInvalid, "the option cannot be read")
		return nil, nil
	}
	var s *session
	var err error
	if o.kind == optGo {
		s, err = h.enter(ctx, name)
	} else {
		s, err = h.look(ctx, name)
	}
	if err != nil {
		h.refuseExport(o, err)
		return nil, nil
	}
	h.tell(o, s, wanted)
	h.reply(o, repAck)
	if o.kind == optGo {
		return s, nil
	}
	return nil, nil
}

// tell says what there is to know of an export: its size and flags in any
// case, the rest if it was wanted.
func (h *handshake) tell(o option, s *session, wanted []uint16) {
	info := func(kind uint16) []byte { return binary.BigEndian.AppendUint16(nil, kind) }
	export := binary.BigEndian.AppendUint64(info(infoExport), uint64(s.export.Size))
	h.reply(o, repInfo, binary.BigEndian.AppendUint16(export, s.flags()))
	for _, w := range wanted {
		switch w {
		case infoName:
			h.reply(o, repInfo, info(infoName), []byte(s.export.Name))
		case infoDescribe:
			if s.export.Description != "" {
				h.reply(o, repInfo, info(infoDescribe), []byte(s.export.Description))
			}
		case infoBlockSizes:
			sizes := info(infoBlockSizes)
			for _, size := range []uint32{minBlock, preferredBlock, maxPayload} {
				sizes = binary.BigEndian.AppendUint32(sizes, size)
			}
			h.reply(o, repInfo, sizes)
		}
	}
}

// look gives a session as it would be, with no device opened.
func (h *handshake) look(ctx context.Context, name string) (*session, error) {
	if len(name) > maxString {
		return nil, ErrUnknown
	}
	e, err := h.exports.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	chosen := h.contextFor != nil && *h.contextFor == name
	return &session{export: e, structured: h.structured, allocation: chosen}, nil
}

// enter opens the export of a name. What is said of it is looked up again once it is
// open, since it may have been changed until then.
func (h *handshake) enter(ctx context.Context, name string) (*session, error) {
	s, err := h.look(ctx, name)
	if err != nil {
		return nil, err
	}
	device, err := h.open(ctx, s.export.Name)
	if err != nil {
		return nil, err
	}
	if s, err = h.look(ctx, name); err != nil {
		device.leave()
		return nil, err
	}
	s.opened = device
	return s, nil
}

func (s *session) flags() uint16 {
	flags := uint16(allFlags)
	if s.export.ReadOnly {
		flags |= isReadOnly
	}
	if s.export.MultiConn {
		flags |= canMultiConn
	}
	if s.structured {
		flags |= canDF
	}
	return flags
}

// metaContexts answers which kinds of block status there are, or chooses from them.
// There is one, base:allocation. A choice takes the place of any before, even when it fails.
func (h *handshake) metaContexts(ctx context.Context, o option) {
	set := o.kind == optSetMeta
	if set {
		h.contextFor = nil
	}
	name, queries, ok := parseQueries(o.data)
	if !ok || set && !h.structured {
		h.refuse(o, repErrInvalid, "the option cannot be read, or comes before STRUCTURED_REPLY")
		return
	}
	if _, err := h.look(ctx, name); err != nil {
		h.refuseExport(o, err)
		return
	}
	found := !set && len(queries) == 0
	for _, q := range queries {
		found = found || q == allocation || !set && q == "base:"
	}
	if found {
		id := uint32(0) // of no meaning in a list
		if set {
			h.contextFor, id = &name, allocationID
		}
		h.reply(o, repMeta, binary.BigEndian.AppendUint32(nil, id), []byte(allocation))
	}
	h.reply(o, repAck)
}

func (h *handshake) refuseExport(o option, err error) {
	if errors.Is(err, ErrUnknown) {
		h.refuse(o, repErrUnknown, err.Error())
	} else {
		h.refuse(o, repErrPolicy, err.Error())
	}
}

func (h *handshake) refuse(o option, kind uint32, why string) {
	h.reply(o, kind, []byte(clip(why)))
}

// reply adds one reply to an option.
func (h *handshake) reply(o option, kind uint32, parts ...[]byte) {
	data := bytes.Join(parts, nil)
	head := binary.BigEndian.AppendUint64(nil, magicReply)
	head = binary.BigEndian.AppendUint32(head, o.kind)
	head = binary.BigEndian.AppendUint32(head, kind)
	head = binary.BigEndian.AppendUint32(head, uint32(len(data)))
	h.out.Add(head, data)
}

// clip cuts a text to what the protocol allows of one.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxString)], "")
}

// parseInfo reads the data of INFO and GO: a name and what is wanted.
func parseInfo(data []byte) (name string, wanted []uint16, ok bool) {
	name, data, ok = cutString(data)
	if !ok || len(data) < 2 || len(data)-2 != 2*int(binary.BigEndian.Uint16(data)) {
		return "", nil, false
	}
	for data = data[2:]; len(data) > 0; data = data[2:] {
		wanted = append(wanted, binary.BigEndian.Uint16(data))
	}
	return name, wanted, true
}

// parseQueries reads the data of LIST_META_CONTEXT and SET_META_CONTEXT: a name and queries.
func parseQueries(data []byte) (name string, queries []string, ok bool) {
	name, data, ok = cutString(data)
	if !ok || len(data) < 4 {
		return "", nil, false
	}
	n := binary.BigEndian.Uint32(data)
	data = data[4:]
	for range n {
		var q string
		if q, data, ok = cutString(data); !ok {
			return "", nil, false
		}
		queries = append(queries, q)
	}
	return name, queries, len(data) == 0
}

// cutString cuts a string from its length and what follows it.
func cutString(data []byte) (s string, rest []byte, ok bool) {
	if len(data) < 4 {
		return "", nil, false
	}
	n := binary.BigEndian.Uint32(data)
	data = data[4:]
	if uint64(n) > uint64(len(data)) {
		return "", nil, false
	}
	return string(data[:n]), data[n:], true
}
