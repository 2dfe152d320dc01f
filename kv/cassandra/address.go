package cassandra

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gleaner/input"
)

// Scheme is how the address of a store on Cassandra begins.
const Scheme = "cassandra://"

// An Address says where a store is and how to reach it, as
//
//	cassandra://HOST[:PORT],…/KEYSPACE[?NAME=VALUE&…]
//
// It has no secrets: the user and password are in a file or in the environment.
type Address struct {
	Hosts    []string // each with its port, if it has one
	Keyspace string
	DC       string // the local datacenter; empty: the only one
	Replicas int    // of each record in DC; 0: not said
	Login    string // a file of two lines, the user and the password; empty: the environment's, if any
	TLS      bool
	CA       string // a file with the certificates to trust; empty: the system's
	Cert     string // files of this client's own certificate and key; empty: none
	Key      string
}

// The environment variables of the user and the password.
const (
	userVariable     = "GLEANER_CASSANDRA_USER"
	passwordVariable = "GLEANER_CASSANDRA_PASSWORD"
)

// maxReplicas is more than anyone has.
const maxReplicas = 99

var (
	keyspaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
	dcName       = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	hostName     = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
)

// Parse reads an address. A mistake in it is an input.Error.
func Parse(text string) (Address, error) {
	a, err := parse(text)
	if err != nil {
		return Address{}, input.Errorf(Shown(text), "%v", err)
	}
	return a, nil
}

// What an error may show of an address. A password may stand wherever one does not belong.
var (
	shownScheme = regexp.MustCompile(`^(cassandra:/*|[a-z0-9+.-]*://)`)
	shownWhere  = regexp.MustCompile(`^((\[[0-9A-Fa-f:.]*\]|[A-Za-z0-9_.-]*)(:[0-9]*)?(,|/|$))*$`)
	shownStart  = regexp.MustCompile(`^([A-Za-z0-9_./~-]|%2F)*`)
)

var settingNames = []string{"dc", "replicas", "login", "tls", "ca", "cert", "key"}

// Shown is an address as an error may show it: without a password that should not be there.
// Of settings it has only those that an address has.
func Shown(text string) string {
	show := shownScheme.FindString(text)
	where, settings, asks := strings.Cut(text[len(show):], "?")
	if at := strings.LastIndexByte(where, '@'); at >= 0 {
		show += "…@"
		where = where[at+1:]
	}
	if shownWhere.MatchString(where) {
		show += where
	} else {
		show += start(where)
	}
	if asks {
		show += "?" + shownSettings(settings)
	}
	if len(show) > 200 {
		show = show[:200] + "…"
	}
	return strings.ToValidUTF8(show, "�")
}

// shownSettings ends at the first setting that is none: what follows may be the rest of its value.
func shownSettings(settings string) string {
	var show []string
	for setting := range strings.SplitSeq(settings, "&") {
		name, value, ok := strings.Cut(setting, "=")
		switch {
		case !ok:
			return strings.Join(append(show, "…"), "&")
		case !slices.Contains(settingNames, name):
			return strings.Join(append(show, start(name)+"=…"), "&")
		}
		show = append(show, name+"="+start(value))
	}
	return strings.Join(show, "&")
}

// start is a text up to the first character that a name or a path seldom has.
func start(text string) string {
	if s := shownStart.FindString(text); s != text {
		return s + "…"
	}
	return text
}

func parse(text string) (a Address, err error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return a, errors.New("must begin with " + Scheme)
	}
	where, settings, _ := strings.Cut(rest, "?")
	hosts, keyspace, _ := strings.Cut(where, "/")
	if strings.Contains(where, "@") {
		return a, fmt.Errorf("takes no user or password: put them into a file named by login=, or into %s and %s", userVariable, passwordVariable)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if err := checkHost(host); err != nil {
			return a, err
		}
		a.Hosts = append(a.Hosts, host)
	}
	if a.Keyspace = keyspace; !keyspaceName.MatchString(keyspace) || strings.HasPrefix(keyspace, "system") {
		return a, fmt.Errorf("%q cannot be its keyspace: use up to 48 of a-z, 0-9 and _, a letter first, not system", start(keyspace))
	}
	return a, a.set(settings)
}

func checkHost(host string) error {
	name, port := host, ""
	if strings.ContainsAny(host, ":[]") {
		var err error
		if name, port, err = net.SplitHostPort(host); err != nil {
			return fmt.Errorf("%q is not a host, or host:port", shownHost(host))
		}
		if strings.Trim(port, "0123456789") != "" { // it may be a password
			return fmt.Errorf("%q is not a host, or host:port", start(name)+":…")
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
			return fmt.Errorf("%q is not a port", port)
		}
	}
	if !hostName.MatchString(name) && net.ParseIP(name) == nil {
		return fmt.Errorf("%q is not a host", shownHost(host))
	}
	return nil
}

func shownHost(host string) string {
	if net.ParseIP(host) != nil { // without its brackets
		return host
	}
	return start(host)
}

// set reads what follows the question mark.
func (a *Address) set(settings string) error {
	set := map[string]bool{}
	for setting := range strings.SplitSeq(settings, "&") {
		if setting == "" {
			continue
		}
		name, text, ok := strings.Cut(setting, "=")
		switch {
		case !ok:
			return errors.New("a setting is NAME=VALUE, with & before the next")
		case !slices.Contains(settingNames, name):
			return fmt.Errorf("it has no setting %q: there are dc, replicas, login, tls, ca, cert and key", start(name))
		case set[name]:
			return fmt.Errorf("%s is set twice", name)
		}
		value, err := url.QueryUnescape(text)
		if err != nil || strings.Contains(text, ";") {
			return fmt.Errorf("%s cannot be read: %% must be written as %%25, and ; as %%3B", name)
		}
		set[name] = true
		if err := a.setOne(name, value); err != nil {
			return err
		}
	}
	if (a.Cert == "") != (a.Key == "") {
		return errors.New("cert and key need each other")
	}
	a.TLS = a.TLS || a.CA != "" || a.Cert != ""
	return nil
}

func (a *Address) setOne(name, value string) error {
	file := map[string]*string{"login": &a.Login, "ca": &a.CA, "cert": &a.Cert, "key": &a.Key}[name]
	switch {
	case file != nil && (value == "" || strings.ContainsRune(value, 0)):
		return fmt.Errorf("%s must name a file", name)
	case file != nil:
		*file = value
	case name == "dc" && dcName.MatchString(value):
		a.DC = value
	case name == "dc":
		return fmt.Errorf("%q cannot be a datacenter", start(value))
	case name == "replicas":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxReplicas {
			return fmt.Errorf("replicas must be 1 to %d, not %q", maxReplicas, start(value))
		}
		a.Replicas = n
	case value == "on": // of tls
		a.TLS = true
	default:
		return fmt.Errorf("tls can be on, not %q", start(value))
	}
	return nil
}

// String writes the address; Parse reads it back.
func (a Address) String() string {
	values := url.Values{}
	for name, value := range map[string]string{"dc": a.DC, "login": a.Login, "ca": a.CA, "cert": a.Cert, "key": a.Key} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if a.Replicas != 0 {
		values.Set("replicas", strconv.Itoa(a.Replicas))
	}
	if a.TLS && a.CA == "" && a.Cert == "" {
		values.Set("tls", "on")
	}
	text := Scheme + strings.Join(a.Hosts, ",") + "/" + a.Keyspace
	if len(values) > 0 {
		text += "?" + values.Encode()
	}
	return text
}

// login gives the user and the password; both are empty if there are none.
func (a Address) login() (user, password string, err error) {
	if a.Login == "" {
		return os.Getenv(userVariable), os.Getenv(passwordVariable), nil
	}
	text, err := os.ReadFile(a.Login)
	if err != nil {
		return "", "", input.Errorf(a.Login, "cannot be read: %v", errors.Unwrap(err))
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")), "\n")
	if len(lines) != 2 || lines[0] == "" {
		return "", "", input.Errorf(a.Login, "must have two lines, the user and the password")
	}
	return lines[0], lines[1], nil
}
