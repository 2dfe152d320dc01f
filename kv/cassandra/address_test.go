package cassandra

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/input"
	"gleaner/kv"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Address{
		"cassandra://h/k": {Hosts: []string{"h"}, Keyspace: "k"},
		"cassandra://h1,10.0.0.2:9043,h3/gleaner?dc=dc1":    {Hosts: []string{"h1", "10.0.0.2:9043", "h3"}, Keyspace: "gleaner", DC: "dc1"},
		"cassandra://[::1]:9042/k?replicas=1&login=%2Fl":    {Hosts: []string{"[::1]:9042"}, Keyspace: "k", Replicas: 1, Login: "/l"},
		"cassandra://h/k?tls=on":                            {Hosts: []string{"h"}, Keyspace: "k", TLS: true},
		"cassandra://h/k?ca=ca.pem&cert=c.pem&key=k.pem":    {Hosts: []string{"h"}, Keyspace: "k", TLS: true, CA: "ca.pem", Cert: "c.pem", Key: "k.pem"},
		"cassandra://h/k?ca=ca.pem&tls=on&dc=eu-west_1.b-2": {Hosts: []string{"h"}, Keyspace: "k", TLS: true, CA: "ca.pem", DC: "eu-west_1.b-2"},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "must begin with cassandra://",
		"http://h/k":                            "must begin with cassandra://",
		"cassandra:///k":                        `"" is not a host`,
		"cassandra://h1,,h2/k":                  `"" is not a host`,
		"cassandra://h 1/k":                     `"h…" is not a host`,
		"cassandra://h:0/k":                     `"0" is not a port`,
		"cassandra://h:099/k":                   `"099" is not a port`,
		"cassandra://h:x/k":                     `"h:…" is not a host, or host:port`,
		"cassandra://h:1:2/k":                   `"h…" is not a host`,
		"cassandra://::1/k":                     `"::1" is not a host, or host:port`,
		"cassandra://h/k;a=b":                   `"k…" cannot be its keyspace`,
		"cassandra://h":                         `"" cannot be its keyspace`,
		"cassandra://h/K":                       `"K" cannot be its keyspace`,
		"cassandra://h/system_auth":             `"system_auth" cannot be its keyspace`,
		"cassandra://h/a/b":                     `"a/b" cannot be its keyspace`,
		"cassandra://h/k?dc=":                   `"" cannot be a datacenter`,
		"cassandra://h/k?dc=a'b":                `"a…" cannot be a datacenter`,
		"cassandra://h/k?replicas=0":            `replicas must be 1 to 99, not "0"`,
		"cassandra://h/k?replicas=1&replicas=2": "replicas is set twice",
		"cassandra://h/k?tls=off":               `tls can be on, not "off"`,
		"cassandra://h/k?login=":                "login must name a file",
		"cassandra://h/k?cert=c":                "cert and key need each other",
		"cassandra://h/k?password=x":            `it has no setting "password"`,
		"cassandra://h/k?dc=%zz":                "dc cannot be read: % must be written as %25",
		"cassandra://h/k?login=a;b":             "login cannot be read: % must be written as %25, and ; as %3B",
		"cassandra://h/k?dc":                    "a setting is NAME=VALUE",
	} {
		_, err := Parse(text)
		if !input.Is(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}

// TestShown: what an error shows of an address that is refused has no password, wherever one stands.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"ann:hunter2@h/k":                     "…@h/k",
		"ann:x@hunter2@h/k":                   "…@h/k",
		"ann:hunter2/x@h/k":                   "…@h/k",
		"ann:hunter2@h:9042,bob:hunter2/k":    "…@h…",
		"bob:hunter2/k":                       "bob…",
		"bob:2:hunter2/k":                     "bob…",
		"bob:2?hunter2@h/k":                   "bob:2?…",
		"h1,[::1]:9042,bob:hunter2/k":         "h1…",
		"h/k;password=hunter2":                "h/k…",
		"h/k?password=hunter2":                "h/k?password=…",
		"h/k?password=hunter2&dc=a":           "h/k?password=…",
		"h/k?password=x&hunter2":              "h/k?password=…",
		"h/k?password=x&hunter2=y":            "h/k?password=…",
		"h/k?password=hun%ter2":               "h/k?password=…",
		"h/k?password=hun@ter2":               "h/k?password=…",
		"h/k?dc=a&Pass=hunter2&tls=on":        "h/k?dc=a&Pass=…",
		"h/k?x=1;password=hunter2":            "h/k?x=…",
		"h/k?dc=a;password=hunter2":           "h/k?dc=a…",
		"h/k?dc=a,password=hunter2":           "h/k?dc=a…",
		"h/k?login=bob:hunter2&x=":            "h/k?login=bob…&x=…",
		"h/k?auth=bob:hunter2":                "h/k?auth=…",
		"h/k?bob:hunter2=":                    "h/k?bob…=…",
		"h/k?hunter2":                         "h/k?…",
		"h1,h2:9042,[::1]:1/k?replicas=0&x=y": "h1,h2:9042,[::1]:1/k?replicas=0&x=…",
		"h/k?ca=/a.pem&login=%2Fl&key=~/k&t=": "h/k?ca=/a.pem&login=%2Fl&key=~/k&t=…",
	} {
		if got := Shown(Scheme + text); got != Scheme+want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
		if _, err := Parse(Scheme + text); !input.Is(err) || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: got error %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"":                                "",
		"http://h/k":                      "http://h/k",
		"postgres://ann:hunter2@h/k":      "postgres://…@h/k",
		"cassandra:/ann:hunter2@h/k":      "cassandra:/…@h/k",
		"cassandra:h/k?auth=hunter2":      "cassandra:h/k?auth=…",
		"h/k\n" + Scheme + "hunter2":      "h/k…",
		Scheme + strings.Repeat("h", 300): Scheme + strings.Repeat("h", 200-len(Scheme)) + "…",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("cassandra://h1,h2:9042,[::1]:1/k?dc=a&replicas=3&login=f&ca=c&cert=x&key=y&tls=on")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			if !input.Is(err) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := Parse(a.String())
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Errorf("%q: %+v came back as %+v, %v", text, a, again, err)
		}
	})
}

func FuzzBounds(f *testing.F) {
	f.Add([]byte(nil), []byte("\x00\x01\x02\x03\x04\x05\x06\x07"))
	f.Add(place{tokenOf([]byte("a\x00b")), &kv.Key{Part: []byte("a\x00b"), Row: []byte("r")}}.bytes(), []byte("x"))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		at, _, err := bounds(kv.Range{From: from, To: to})
		if err == nil && from != nil && string(at.bytes()) != string(from) {
			t.Errorf("%x came back as %x", from, at.bytes())
		}
	})
}

func TestLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "login")
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }
	a := Address{Login: file}
	write("ann\r\nse cret\r\n")
	if user, password, err := a.login(); err != nil || user != "ann" || password != "se cret" {
		t.Errorf("%q %q %v", user, password, err)
	}
	for _, text := range []string{"", "ann", "ann\na\nb"} {
		write(text)
		if _, _, err := a.login(); !input.Is(err) || strings.Contains(err.Error(), "ann") {
			t.Errorf("%q: %v", text, err)
		}
	}
	must(t, os.Remove(file))
	_, _, err := a.login()
	says(t, err, "cannot be read: no such file")
	a = Address{TLS: true, CA: file}
	_, err = config(a)
	says(t, err, "cannot be read: no such file")
	must(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	_, err = config(a)
	says(t, err, "has no certificate")
	_, err = config(Address{TLS: true, Cert: file, Key: file})
	says(t, err, "cannot be used with")
}

func TestDistance(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, tc := range []struct {
		there time.Time
		want  time.Duration
	}{{at(10), 0}, {at(15), 0}, {at(20), 0}, {at(7), 3 * time.Second}, {at(200), 3 * time.Minute}} {
		if got := distance(tc.there, at(10), at(20)); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.there, got, tc.want)
		}
	}
}

// TestSettled: an error of a compare-and-set is unknown, unless it surely did nothing.
func TestSettled(t *testing.T) {
	for _, err := range []error{gocql.ErrNoConnections, &gocql.RequestErrUnavailable{Consistency: gocql.Serial}} {
		if got := settled(err); errors.Is(got, kv.ErrUnknown) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{
		gocql.ErrTimeoutNoResponse, gocql.ErrConnectionClosed, os.ErrDeadlineExceeded, &gocql.RequestErrWriteTimeout{},
		&gocql.RequestErrCASWriteUnknown{}, &gocql.RequestErrOverloaded{},
		&gocql.RequestErrUnavailable{Consistency: gocql.Quorum}, // the commit found too few
	} {
		if got := settled(err); !errors.Is(got, kv.ErrUnknown) || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// TestCut: the ranges follow each other and cover the ring.
func TestCut(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 1000} {
		ranges := cut(n)
		if len(ranges) != n || ranges[0].From != nil || ranges[n-1].To != nil {
			t.Fatalf("%d: %v", n, ranges)
		}
		for i, r := range ranges[1:] {
			from, to, err := bounds(r)
			must(t, err)
			if string(r.From) != string(ranges[i].To) || from.token >= to {
				t.Errorf("%d: range %d is (%d, %d]", n, i+1, from.token, to)
			}
		}
	}
}
