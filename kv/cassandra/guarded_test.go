package cassandra

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gleaner/input"
)

// TestGuarded: a server with TLS, which wants certificates of its clients, and with passwords. With the right ones a store opens; what is wrong is said
// in one line.
func TestGuarded(t *testing.T) {
	dir := t.TempDir()
	first := loopback()
	server := newCertificates(t, dir, "server", net.IP(first.Addr().AsSlice()))
	other := newCertificates(t, dir, "other", net.IPv4(127, 0, 0, 1))
	c := newClusterAt(t, first, 1, fmt.Sprintf(`authenticator: PasswordAuthenticator
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}
  keystore: %s
  truststore: %s
`, server.both, server.ca))
	a := address(t, c, "secret")
	a.TLS, a.CA, a.Cert, a.Key = true, server.ca, server.cert, server.key
	t.Setenv(userVariable, "cassandra")
	t.Setenv(passwordVariable, "cassandra")
	var s *Store
	var err error
	for range 60 { // Cassandra makes its first user some seconds after it began to serve
		if s, err = Open(t.Context(), a, Options{}); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	must(t, err)
	must(t, s.Close())

	login := filepath.Join(dir, "login")
	must(t, os.WriteFile(login, []byte("cassandra\ncassandra\n"), 0o600))
	t.Setenv(passwordVariable, "guess")
	refused := func(change func(*Address), want string) {
		t.Helper()
		b := a
		change(&b)
		s, err := Open(t.Context(), b, Options{})
		if err == nil {
			s.Close()
		}
		if says(t, err, want); !input.Is(err) {
			t.Errorf("%v is not an input error", err)
		}
	}
	refused(func(*Address) {}, "the user or the password is wrong")
	a.Login = login
	s, err = Open(t.Context(), a, Options{Existing: true})
	must(t, err)
	must(t, s.Close())
	refused(func(b *Address) { b.CA = other.ca }, "no host answers: ")
	refused(func(b *Address) { b.Cert, b.Key = other.cert, other.key }, "no host answers: ")
	refused(func(b *Address) { b.Cert, b.Key = "", "" }, "no host answers: ")
	refused(func(b *Address) { b.TLS = false }, "no host answers: ")
	a.Login = ""
	t.Setenv(userVariable, "")
	refused(func(*Address) {}, "it needs a user and a password")
}

// certificates are the files of a certificate, of its key, of both, and of the one that signed it.
type certificates struct{ cert, key, both, ca string }

func newCertificates(t *testing.T, dir, name string, at net.IP) certificates {
	t.Helper()
	file := func(ending string, blocks ...*pem.Block) string {
		path := filepath.Join(dir, name+ending)
		var text []byte
		for _, b := range blocks {
			text = append(text, pem.EncodeToMemory(b)...)
		}
		must(t, os.WriteFile(path, text, 0o600))
		return path
	}
	sign := func(c, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) *pem.Block {
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
		must(t, err)
		return &pem.Block{Type: "CERTIFICATE", Bytes: der}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " ca"}, NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to, IPAddresses: []net.IP{at},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	private, signed := &pem.Block{Type: "PRIVATE KEY", Bytes: der}, sign(leaf, ca, key, caKey)
	return certificates{file(".crt", signed), file(".key", private), file(".pem", private, signed), file(".ca", sign(ca, ca, caKey, caKey))}
}
