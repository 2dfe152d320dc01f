// Package crew lets other machines play with a replay, for targets that are larger
// than one machine can play to. The replay is the host. Each other machine joins it,
// is told what to play, and says what it measured.
//
// # Who may join
//
// Host and machines know the same token, 32 random bytes that the host made. All they say is
// said over TLS, in which each side has to prove that it has a private key that
// follows from the token. So nothing that follows from the token is sent, and who does not
// know it learns nothing and gets no further.
//
// A machine does what its host says: it connects to targets, and reads the files that
// their addresses name. A host believes what its machines measured.
//
// # What is said
//
// A machine keeps one connection to its host. Messages on it are JSON, in frames with their
// length before them. The machine begins with a hello. The host sends orders, one after the
// other, and each is answered, except a stop, which ends the order before it, and an over,
// which ends the machine. It also asks for the machine's time every second: that tells how far
// clocks are apart, and that the machine is there: a host hangs up on one that is silent for long. If the connection
// ends, the machine stops what it does, and the host's run ends with an error, since a part of what was measured is lost.
//
// A machine that is to hold connections for players of the host dials a second time, and that
// connection carries the calls (room carrier).
package crew

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// A Token is what host and machines know, and nobody else.
type Token [32]byte

// NewToken makes one that nobody can guess.
func NewToken() (t Token) {
	rand.Read(t[:]) // never fails
	return t
}

// ParseToken reads what String wrote.
func ParseToken(text string) (t Token, err error) {
	if n, err := hex.Decode(t[:], []byte(text[:min(len(text), 2*len(t)+1)])); err != nil || n != len(t) {
		return t, errors.New("this is no token that 'gleaner trace replay --machines' made: those are 64 hexadecimal digits")
	}
	return t, nil
}

func (t Token) String() string { return hex.EncodeToString(t[:]) }

// errStranger is the error of a handshake with one who does not know the token.
var errStranger = errors.New("the other side does not know the token")

// config is that of both sides. Each proves to have the key that follows from the token.
func (t Token) config() (*tls.Config, error) {
	mac := hmac.New(sha256.New, t[:])
	mac.Write([]byte("gleaner trace player"))
	key := ed25519.NewKeyFromSeed(mac.Sum(nil))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("crew: make a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true, // each connection proves the key
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // no authority vouches for the key: VerifyConnection compares it
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !key.Public().(ed25519.PublicKey).Equal(s.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
	}, nil
}

// alive finds out within half a minute that the other machine is gone.
var alive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}
