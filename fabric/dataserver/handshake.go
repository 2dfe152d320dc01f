package dataserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
)

// A handshake is three messages. The client is the first to prove that it knows the
// key, so that a stranger gets nothing but a nonce.
//
//	server: greeting: magic, version, nonce
//	client: hello: magic, version, nonce, disk; proof
//	server: welcome: status, payload; proof
const (
	magic   = "gleandat"
	version = 1

	nonceBytes    = 32
	proofBytes    = sha256.Size
	greetingBytes = len(magic) + 4 + nonceBytes
	mostWelcome   = 64 << 10
)

// What a server says to a hello.
const (
	welcomed    = 0
	noSuchDisk  = 1
	tooMany     = 2
	notProven   = 3 // without a proof of the server's
	welcomeHead = 1 + 4
)

func newGreeting() []byte {
	var nonce [nonceBytes]byte
	rand.Read(nonce[:]) // never fails
	return encodeGreeting(nonce)
}

func encodeGreeting(nonce [nonceBytes]byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(magic), version)
	return append(out, nonce[:]...)
}

func checkGreeting(data []byte) error {
	if string(data[:len(magic)]) != magic {
		return errors.New("the other side is no part of a fabric")
	}
	if v := binary.LittleEndian.Uint32(data[len(magic):]); v != version {
		return fmt.Errorf("the other side speaks version %d, this one %d", v, version)
	}
	return nil
}

// A pact is what both sides prove that they agree upon.
type pact struct {
	cluster  Cluster
	binding  []byte // of the TLS connection; zeros without
	greeting []byte
	hello    []byte
}

// newPact begins with what a connection is bound to. It shakes the hands of TLS.
func newPact(ctx context.Context, c net.Conn, cluster Cluster) (*pact, error) {
	p := &pact{cluster: cluster, binding: make([]byte, 32)}
	secured, ok := c.(*tls.Conn)
	if !ok {
		return p, nil
	}
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := secured.ConnectionState()
	var err error
	p.binding, err = state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	return p, err
}

// proof is what only someone can compute who knows the key and was part of this handshake.
func (p *pact) proof(side string, said ...[]byte) []byte {
	mac := hmac.New(sha256.New, p.cluster.Key[:])
	for _, part := range append([][]byte{[]byte(side), []byte(p.cluster.ID), p.binding, p.greeting, p.hello}, said...) {
		var n [4]byte
		binary.LittleEndian.PutUint32(n[:], uint32(len(part)))
		mac.Write(n[:])
		mac.Write(part)
	}
	return mac.Sum(nil)
}

func (p *pact) clientProof() []byte { return p.proof("gleaner client") }

func (p *pact) serverProof(welcome []byte) []byte {
	return p.proof("gleaner server", p.clientProof(), welcome)
}

// hear greets a client and gives the disk that it asks for.
func (p *pact) hear(c io.ReadWriter) (disk string, err error) {
	p.greeting = newGreeting()
	if _, err := c.Write(p.greeting); err != nil {
		return "", err
	}
	hello := make([]byte, greetingBytes+1)
	if _, err := io.ReadFull(c, hello); err != nil {
		return "", err
	}
	if err := checkGreeting(hello); err != nil {
		return "", err
	}
	rest := make([]byte, int(hello[greetingBytes])+proofBytes)
	if _, err := io.ReadFull(c, rest); err != nil {
		return "", err
	}
	name, proof := rest[:len(rest)-proofBytes], rest[len(rest)-proofBytes:]
	p.hello = append(hello, name...)
	if !hmac.Equal(proof, p.clientProof()) {
		p.welcome(c, notProven, nil)
		return "", ErrStranger
	}
	return string(name), nil
}

// welcome ends the handshake of a server.
func (p *pact) welcome(c io.Writer, status byte, payload []byte) error {
	_, err := c.Write(p.encodeWelcome(status, payload))
	return err
}

func (p *pact) encodeWelcome(status byte, payload []byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte{status}, uint32(len(payload)))
	out = append(out, payload...)
	if status == notProven {
		return append(out, make([]byte, proofBytes)...)
	}
	return append(out, p.serverProof(out)...)
}

// encodeHello is what a client says first, without its proof.
func encodeHello(greeting []byte, disk string) []byte {
	return append(append(greeting, byte(len(disk))), disk...)
}

// introduce is the client's side of a handshake. It gives what the server says of the disk.
func (p *pact) introduce(c io.ReadWriter, disk string) ([]byte, error) {
	p.greeting = make([]byte, greetingBytes)
	if _, err := io.ReadFull(c, p.greeting); err != nil {
		return nil, err
	}
	if err := checkGreeting(p.greeting); err != nil {
		return nil, err
	}
	if len(disk) > 255 {
		return nil, ErrNoDisk
	}
	p.hello = encodeHello(newGreeting(), disk)
	if _, err := c.Write(slices.Concat(p.hello, p.clientProof())); err != nil {
		return nil, err
	}
	said, err := p.readWelcome(c)
	if err != nil {
		return nil, err
	}
	switch said[0] {
	case welcomed:
		return said[welcomeHead:], nil
	case noSuchDisk:
		return nil, ErrNoDisk
	case tooMany:
		return nil, fmt.Errorf("%w: it has too many connections", ErrBusy)
	}
	return nil, errMalformed
}

// readWelcome reads what a server says to a hello, if it proves itself.
func (p *pact) readWelcome(c io.Reader) ([]byte, error) {
	welcome := make([]byte, welcomeHead)
	if _, err := io.ReadFull(c, welcome); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(welcome[1:])
	if n > mostWelcome {
		return nil, errMalformed
	}
	welcome = append(welcome, make([]byte, int(n)+proofBytes)...)
	if _, err := io.ReadFull(c, welcome[welcomeHead:]); err != nil {
		return nil, err
	}
	said, proof := welcome[:len(welcome)-proofBytes], welcome[len(welcome)-proofBytes:]
	if said[0] == notProven || !hmac.Equal(proof, p.serverProof(said)) {
		return nil, ErrStranger
	}
	return said, nil
}
