// Package httpcall makes calls by HTTP with JSON bodies, as they are in an audit log of
// Kubernetes: a verb and a resource ("update leases", with the arguments @namespace and
// @name), or a verb and a path ("get /healthz", with @path). Arguments @query.KEY go into
// the URL, all others into the body.
package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/replay"
)

// Open makes an executor for http://host:port or https://. With ?token=FILE
// calls have the token in that file; with ?insecure=true the server's certificate is
// not verified. If the server lists its resources as Kubernetes does, they are read.
func Open(ctx context.Context, at *url.URL) (replay.Executor, error) {
	e := &executor{base: at.Scheme + "://" + at.Host, paths: map[string]string{}}
	if file := at.Query().Get("token"); file != "" {
		token, err := os.ReadFile(file)
		if err != nil {
			return nil, input.Fieldf("target", "token: %v", err)
		}
		e.token = strings.TrimSpace(string(token))
	}
	if at.Query().Get("insecure") == "true" {
		e.tls = &tls.Config{InsecureSkipVerify: true} // as the user asked
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return e, e.discover(ctx)
}

type executor struct {
	base, token string
	tls         *tls.Config
	paths       map[string]string // of resources, up to the namespace: "leases" is /apis/coordination.k8s.io/v1
}

// discover reads the paths of resources, and checks the login.
func (e *executor) discover(ctx context.Context) error {
	c := e.client()
	defer c.CloseIdleConnections()
	status, body, err := e.get(ctx, c, "/api/v1")
	if err != nil {
		return err
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return fmt.Errorf("the login is refused: %d %s", status, http.StatusText(status))
	}
	e.learn("/api/v1", body)
	var groups struct {
		Groups []struct {
			PreferredVersion struct{ GroupVersion string }
		}
	}
	if status, body, err = e.get(ctx, c, "/apis"); err != nil || status != http.StatusOK || json.Unmarshal(body, &groups) != nil {
		return err // not Kubernetes: resources are paths
	}
	for _, g := range groups.Groups {
		path := "/apis/" + g.PreferredVersion.GroupVersion
		if _, body, err = e.get(ctx, c, path); err != nil {
			return err
		}
		e.learn(path, body)
	}
	return nil
}

func (e *executor) learn(path string, body []byte) {
	var list struct {
		Resources []struct{ Name string }
	}
	if json.Unmarshal(body, &list) != nil {
		return // it lists no resources
	}
	for _, r := range list.Resources {
		if e.paths[r.Name] == "" {
			e.paths[r.Name] = path
		}
	}
}

func (e *executor) get(ctx context.Context, c *http.Client, path string) (int, []byte, error) {
	req, err := e.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, plainly(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return resp.StatusCode, body, err
}

// maxBody is the largest reply read.
const maxBody = 64 << 20

func (e *executor) request(ctx context.Context, verb, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, verb, e.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if e.token != "" {
		req.Header.Set("Authorization", "Bearer "+e.token)
	}
	return req, nil
}

func (e *executor) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig: e.tls, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10, MaxIdleConnsPerHost: 4, DisableCompression: true,
	}}
}

// Dial makes a client for the node. HTTP connects with the first call.
func (e *executor) Dial(context.Context, replay.Identity) (replay.Conn, error) {
	c := &conn{e: e, client: e.client()}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

type conn struct {
	e      *executor
	client *http.Client
	life   context.Context // of what is watched
	end    context.CancelFunc
}

// Multiplexed marks that calls may be made at once: each gets a connection.
func (c *conn) Multiplexed() {}

// Close closes the connections.
func (c *conn) Close() error {
	c.end()
	c.client.CloseIdleConnections()
	return nil
}

// verbs are those of an audit log.
var verbs = map[string]string{"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "post": "POST", "update": "PUT", "put": "PUT",
	"patch": "PATCH", "apply": "PATCH", "delete": "DELETE", "deletecollection": "DELETE", "head": "HEAD", "options": "OPTIONS"}

// Check is an error for a method that does not begin with a verb.
func (e *executor) Check(method string) error {
	verb, _, _ := strings.Cut(method, " ")
	if verbs[verb] == "" {
		return input.Fieldf("target", "%q cannot be called by HTTP: %q is none of %s", method, verb, strings.Join(slices.Sorted(maps.Keys(verbs)), ", "))
	}
	return nil
}

// Call makes a request. A watch is answered when it begins.
func (c *conn) Call(ctx context.Context, call *trace.Call) (replay.Reply, error) {
	path, query, fields, err := c.e.address(call)
	if err != nil {
		return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
	}
	verb, _, _ := strings.Cut(call.Method, " ")
	var body []byte
	if len(fields) > 0 {
		if body, err = trace.Document(fields); err != nil {
			return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
		}
	}
	watches := verb == "watch" || query.Get("watch") == "true"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	under := ctx
	if watches {
		under = c.life
	}
	req, err := c.e.request(under, verbs[verb], path, body)
	if err != nil {
		return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType(verb, query))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return replay.Reply{}, plainly(err)
	}
	if watches && resp.StatusCode == http.StatusOK {
		go func() {
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body) // until the node or the server ends the watch
		}()
		return replay.Reply{Status: strconv.Itoa(resp.StatusCode)}, nil
	}
	defer resp.Body.Close()
	return answer(resp)
}

// contentType is the type of a body. An apply patch is recognised by its query.
func contentType(verb string, query url.Values) string {
	switch {
	case verb == "apply" || verb == "patch" && query.Has("force"):
		return "application/apply-patch+yaml"
	case verb == "patch":
		return "application/merge-patch+json"
	}
	return "application/json"
}

// address gives the path and the query of a call, and the arguments for its body.
func (e *executor) address(call *trace.Call) (path string, query url.Values, body []trace.Leaf, err error) {
	query = url.Values{}
	var namespace, name, whole string
	for _, l := range call.Request {
		key, inQuery := strings.CutPrefix(l.Path, "@query.")
		switch {
		case inQuery:
			query.Set(key, l.Value)
		case l.Path == "@namespace":
			namespace = l.Value
		case l.Path == "@name":
			name = l.Value
		case l.Path == "@path":
			whole = l.Value
		default:
			body = append(body, l)
		}
	}
	if whole != "" {
		return whole, query, body, nil
	}
	verb, resource, ok := strings.Cut(call.Method, " ")
	if !ok {
		return "", nil, nil, fmt.Errorf("%q is not a verb and a resource", call.Method)
	}
	if strings.HasPrefix(resource, "/") {
		return resource, query, body, nil
	}
	resource, sub, _ := strings.Cut(resource, "/")
	path = e.root(resource, body)
	if namespace != "" && resource != "namespaces" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + resource
	if name != "" && (verb != "create" || sub != "") {
		path += "/" + url.PathEscape(name)
	}
	if sub != "" {
		path += "/" + sub
	}
	return path, query, body, nil
}

// root is the path of a resource: from the server's list, or from the body.
func (e *executor) root(resource string, body []trace.Leaf) string {
	version, _ := trace.Get(body, "apiVersion")
	switch known := e.paths[resource]; {
	case known != "" || version == "":
		return known
	case strings.Contains(version, "/"):
		return "/apis/" + version
	}
	return "/api/" + version
}

// plainly removes the address from an error, so that equal errors can be counted.
func plainly(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// answer reads a reply; one that is not JSON is kept as text.
func answer(resp *http.Response) (replay.Reply, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return replay.Reply{}, plainly(err)
	}
	out := replay.Reply{Status: strconv.Itoa(resp.StatusCode)}
	if out.Leaves, err = trace.Flatten(string(body)); err != nil && len(body) > 0 {
		out.Leaves = []trace.Leaf{{Path: "body", Kind: trace.String, Value: string(body)}}
	}
	if resp.StatusCode >= 400 {
		out.Message, _ = trace.Get(out.Leaves, "message")
		out.Message = cmp.Or(out.Message, http.StatusText(resp.StatusCode))
	}
	return out, nil
}
