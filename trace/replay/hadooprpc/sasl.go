package hadooprpc

import (
	"bufio"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Token proves to a server who calls.
type Token struct {
	Identifier, Password []byte
	Kind, Service        string
}

// The states of a SASL login (RpcSaslProto).
const (
	saslSuccess   = 0
	saslNegotiate = 1
	saslInitiate  = 2
	saslChallenge = 3
	saslResponse  = 4
)

// A saslMessage is one message of a login.
type saslMessage struct {
	state uint64
	token []byte
	auths []saslAuth
}

// A saslAuth is one way to log in.
type saslAuth struct {
	method, mechanism, protocol, server string
	challenge                           []byte
}

func (m saslMessage) append(b []byte) []byte {
	b = varint(b, 2, m.state)
	if m.token != nil {
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), m.token)
	}
	for _, a := range m.auths {
		inner := text(text(nil, 1, a.method), 2, a.mechanism)
		inner = text(text(inner, 3, a.protocol), 4, a.server)
		b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), inner)
	}
	return b
}

func (m *saslMessage) parse(b []byte) error {
	var bad error
	err := fields(b, func(num protowire.Number, v uint64, s []byte) {
		switch num {
		case 2:
			m.state = v
		case 3:
			m.token = s
		case 4:
			var a saslAuth
			bad = errors.Join(bad, a.parse(s))
			m.auths = append(m.auths, a)
		}
	})
	return errors.Join(err, bad)
}

func (a *saslAuth) parse(b []byte) error {
	return fields(b, func(num protowire.Number, _ uint64, s []byte) {
		switch num {
		case 1:
			a.method = string(s)
		case 2:
			a.mechanism = string(s)
		case 3:
			a.protocol = string(s)
		case 4:
			a.server = string(s)
		case 5:
			a.challenge = s
		}
	})
}

// login logs in with a token.
func login(c net.Conn, r *bufio.Reader, t Token) error {
	offer, err := saslTrip(c, r, saslMessage{state: saslNegotiate})
	if err != nil {
		return err
	}
	var offered []string
	for _, a := range offer.auths {
		if a.method == "TOKEN" && a.mechanism == "DIGEST-MD5" {
			return digest(c, r, a, t)
		}
		offered = append(offered, a.method)
	}
	return fmt.Errorf("login: the server takes no tokens; it takes %s", strings.Join(offered, ", "))
}

func digest(c net.Conn, r *bufio.Reader, a saslAuth, t Token) error {
	var cnonce [16]byte
	rand.Read(cnonce[:])
	d := digestMD5{
		user:     base64.StdEncoding.EncodeToString(t.Identifier),
		password: base64.StdEncoding.EncodeToString(t.Password),
		uri:      a.protocol + "/" + a.server,
		cnonce:   hex.EncodeToString(cnonce[:]),
	}
	if err := d.challenge(string(a.challenge)); err != nil {
		return err
	}
	a.challenge = nil
	end, err := saslTrip(c, r, saslMessage{state: saslInitiate, token: []byte(d.response()), auths: []saslAuth{a}})
	if err != nil {
		return err
	}
	if proof, _ := directive(string(end.token), "rspauth"); end.state != saslSuccess || proof != d.proof("") {
		return errors.New("login: the server does not know the token either")
	}
	return nil
}

func saslTrip(c net.Conn, r *bufio.Reader, m saslMessage) (answer saslMessage, err error) {
	header := requestHeader{call: callSASL}.append(nil)
	if _, err := c.Write(frame(header, m.append(nil))); err != nil {
		return answer, err
	}
	buf, err := readFrame(r)
	if err != nil {
		return answer, err
	}
	var h responseHeader
	body, err := h.take(buf)
	if err != nil {
		return answer, err
	}
	if h.status != succeeded {
		return answer, fmt.Errorf("login refused: %s", h.said())
	}
	inner, _, err := next(body)
	if err != nil {
		return answer, err
	}
	return answer, answer.parse(inner)
}

// digestMD5 is one login by RFC 2831, quality of protection "auth".
type digestMD5 struct {
	user, password, realm, nonce, cnonce, uri string
}

// challenge reads the server's challenge.
func (d *digestMD5) challenge(s string) error {
	var ok, md5sess bool
	if d.nonce, ok = directive(s, "nonce"); !ok {
		return fmt.Errorf("login: a challenge without a nonce")
	}
	d.realm, _ = directive(s, "realm")
	if a, _ := directive(s, "algorithm"); a == "md5-sess" {
		md5sess = true
	}
	if !md5sess {
		return fmt.Errorf("login: a challenge that is not md5-sess")
	}
	return nil
}

func (d *digestMD5) response() string {
	return fmt.Sprintf(`charset=utf-8,username="%s",realm="%s",nonce="%s",nc=00000001,cnonce="%s",digest-uri="%s",maxbuf=65536,response=%s,qop=auth`,
		d.user, d.realm, d.nonce, d.cnonce, d.uri, d.proof("AUTHENTICATE"))
}

// proof proves that a side knows the password: the client's proof has "AUTHENTICATE", the
// server's has not.
func (d *digestMD5) proof(method string) string {
	secret := md5.Sum([]byte(d.user + ":" + d.realm + ":" + d.password))
	session := hexMD5(string(secret[:]) + ":" + d.nonce + ":" + d.cnonce)
	return hexMD5(session + ":" + d.nonce + ":00000001:" + d.cnonce + ":auth:" + hexMD5(method+":"+d.uri))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// directive finds one value of a challenge: name=value or name="value".
func directive(s, name string) (string, bool) {
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return "", false
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
			value, rest, _ = strings.Cut(quoted, `"`)
			rest = strings.TrimPrefix(rest, ",")
		} else {
			value, rest, _ = strings.Cut(rest, ",")
		}
		if strings.TrimSpace(key) == name {
			return value, true
		}
		s = rest
	}
	return "", false
}
