package httpcall

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gleaner/input"
	"gleaner/input/mapping"
)

// A login is how a server is trusted, and how it knows who calls.
type login struct {
	tls   *tls.Config
	token string
}

// A kubeconfig is a file of kubectl's, as far as a login needs it. Its other fields are
// ignored: kubectl has many.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []contextOf
	Clusters []struct {
		Name    string
		Cluster struct {
			Authority     string `yaml:"certificate-authority"`
			AuthorityData string `yaml:"certificate-authority-data"`
			Insecure      bool   `yaml:"insecure-skip-tls-verify"`
			ServerName    string `yaml:"tls-server-name"`
		}
	}
	Users []struct {
		Name string
		User user
	}
}

type contextOf struct {
	Name    string
	Context struct{ Cluster, User string }
}

type user struct {
	Token       string
	TokenFile   string `yaml:"tokenFile"`
	Certificate string `yaml:"client-certificate"`
	Key         string `yaml:"client-key"`
	CertData    string `yaml:"client-certificate-data"`
	KeyData     string `yaml:"client-key-data"`
	Username    string
	Exec        yaml.Node
	Provider    yaml.Node `yaml:"auth-provider"`
}

// readKubeconfig is the login of a kubeconfig's current context. Files that it names are
// relative to it.
func readKubeconfig(file string) (login, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return login{}, input.Fieldf("target", "kubeconfig: %v", err)
	}
	doc, err := mapping.Document(file, text)
	if err != nil {
		return login{}, err
	}
	var k kubeconfig
	if doc != nil {
		if err := doc.Decode(&k); err != nil {
			return login{}, mapping.Mistake(file, err)
		}
	}
	out, err := k.login(filepath.Dir(file))
	if err != nil {
		return login{}, input.Errorf(file, "%v", err)
	}
	return out, nil
}

func (k *kubeconfig) login(dir string) (login, error) {
	at := slices.IndexFunc(k.Contexts, func(c contextOf) bool { return c.Name == k.Current })
	if at < 0 {
		return login{}, fmt.Errorf("its current-context %q is none of its contexts", k.Current)
	}
	context := k.Contexts[at].Context
	out := login{tls: &tls.Config{}}
	known := false
	for _, c := range k.Clusters {
		if c.Name != context.Cluster {
			continue
		}
		known = true
		out.tls.InsecureSkipVerify, out.tls.ServerName = c.Cluster.Insecure, c.Cluster.ServerName
		authority, err := either(dir, c.Cluster.Authority, c.Cluster.AuthorityData)
		if err != nil {
			return login{}, fmt.Errorf("certificate-authority: %w", err)
		}
		if len(authority) > 0 {
			if out.tls.RootCAs = x509.NewCertPool(); !out.tls.RootCAs.AppendCertsFromPEM(authority) {
				return login{}, errors.New("certificate-authority: no certificate in it")
			}
		}
	}
	if !known {
		return login{}, fmt.Errorf("its context %q names a cluster %q that it does not have", k.Current, context.Cluster)
	}
	for _, u := range k.Users {
		if u.Name == context.User {
			return out, out.as(&u.User, dir)
		}
	}
	return login{}, fmt.Errorf("its context %q names a user %q that it does not have", k.Current, context.User)
}

// as logs in as a user: by a token or a client's certificate.
func (l *login) as(u *user, dir string) error {
	if !u.Exec.IsZero() || !u.Provider.IsZero() || u.Username != "" {
		return errors.New("its user logs in by another program or by a password; replay reads a token or a client certificate")
	}
	l.token = u.Token
	if u.TokenFile != "" {
		token, err := either(dir, u.TokenFile, "")
		if err != nil {
			return fmt.Errorf("tokenFile: %w", err)
		}
		l.token = strings.TrimSpace(string(token))
	}
	certificate, err := either(dir, u.Certificate, u.CertData)
	if err != nil {
		return fmt.Errorf("client-certificate: %w", err)
	}
	key, err := either(dir, u.Key, u.KeyData)
	if err != nil {
		return fmt.Errorf("client-key: %w", err)
	}
	if len(certificate)+len(key) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("client-certificate: %w", err)
	}
	l.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// either is what a kubeconfig holds itself or names a file of; what it holds wins.
func either(dir, file, data string) ([]byte, error) {
	switch {
	case data != "":
		return base64.StdEncoding.DecodeString(data)
	case file == "":
		return nil, nil
	case !filepath.IsAbs(file):
		file = filepath.Join(dir, file)
	}
	return os.ReadFile(file)
}
