package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAPIRefuses sends requests of a stranger to a real gleaner over the network.
func TestAPIRefuses(t *testing.T) {
	dir := t.TempDir()
	u := startUp(t, dir, "--listen", "127.0.0.1:0")
	u.gleaner("status")
	url := u.address()
	info, err := os.Stat(filepath.Join(dir, "token"))
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("token: %v, %v", info.Mode(), err)
	}
	token := readText(t, filepath.Join(dir, "token"))
	job := "name: j\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: [touch, " + dir + "/ran]}]\n"
	large := strings.Repeat("#", 100<<20)

	for _, tc := range []struct {
		name, body string
		change     func(*http.Request)
		want       int
	}{
		{"no token", job, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"a wrong token", job, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("0", 64)) }, 401},
		{"a foreign origin", job, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"a rebound host", job, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"100 MB", large, func(*http.Request) {}, 413},
		{"100 MB that do not tell their length", large, func(r *http.Request) { r.ContentLength = -1 }, 413},
		{"a form, which any page can post", job, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		{"a text, which any page can post", job, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"a job that is wrong", "name: j\nowner: me\n", func(*http.Request) {}, 422},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, body := post(t, http.DefaultClient, url+"/api/v1/jobs", token, tc.body, tc.change)
			if code != tc.want {
				t.Errorf("%d, want %d: %s", code, tc.want, body)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a job that was refused has run")
	}
	if code, body := post(t, http.DefaultClient, url+"/api/v1/nothing", token, "", func(*http.Request) {}); code != 404 || body != `{"error":"there is no POST /api/v1/nothing here"}`+"\n" {
		t.Errorf("what is not there: %d: %s", code, body)
	}
	var stderr strings.Builder
	taken := strings.TrimPrefix(url, "http://")
	if code := run(t.Context(), []string{"up", "--data", t.TempDir(), "--listen", taken}, nil, io.Discard, &stderr); code != exitBadInput || !strings.HasSuffix(stderr.String(), "gleaner: --listen: "+taken+" is taken, perhaps by another gleaner; name another address, or none\n") {
		t.Errorf("a second gleaner on one address: %d: %s", code, stderr.String())
	}
	if code, body := post(t, http.DefaultClient, url+"/api/v1/jobs", token, job, func(*http.Request) {}); code != 201 {
		t.Errorf("with all that is needed: %d: %s", code, body)
	}
	u.await("j")
	if _, err := os.Stat(filepath.Join(dir, "ran")); err != nil {
		t.Error("the job that was accepted has not run")
	}
}

// Beyond loopback both TLS and the token are required.
func TestAPIBeyondLoopback(t *testing.T) {
	dir := t.TempDir()
	cert, key, pool := selfSigned(t, dir, "gleaner.example")
	u := startUp(t, dir, "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key)
	u.gleaner("status")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(u.address(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "gleaner.example"}}}
	job := "name: j\nstages: [{name: s, cpu: 0.1, memory: 32MiB, command: ['true']}]\n"
	for _, tc := range []struct {
		host, token string
		want        int
	}{
		{"gleaner.example", readText(t, filepath.Join(dir, "token")), 201},
		{"gleaner.example", "", 401},
		{"evil.example", readText(t, filepath.Join(dir, "token")), 403},
	} {
		code, body := post(t, client, "https://127.0.0.1:"+port+"/api/v1/jobs", tc.token, job, func(r *http.Request) { r.Host = tc.host })
		if code != tc.want {
			t.Errorf("%s with %q: %d, want %d: %s", tc.host, tc.token, code, tc.want, body)
		}
	}
}

func post(t *testing.T, client *http.Client, url, token, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/yaml")
	change(r)
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// address is where u listens, as its log says.
func (u *up) address() string {
	u.t.Helper()
	found := regexp.MustCompile(`https?://[^"\s]+`).Find([]byte(readText(u.t, filepath.Join(u.dir, "log"))))
	if found == nil {
		u.t.Fatal("the log does not say where it listens")
	}
	return string(bytes.TrimSpace(found))
}

func selfSigned(t *testing.T, dir, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, pool = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, pool
}
