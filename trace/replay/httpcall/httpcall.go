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
	"sync"
	"sync/atomic"
	"time"

	"gleaner/input"
	"gleaner/trace"
	"gleaner/trace/replay"
)

// options are those that a target's address may have.
var options = []string{"as", "groups", "insecure", "kubeconfig", "token"}

// Open makes an executor for http://host:port or https://. With ?kubeconfig=FILE it trusts
// the server and logs in as that file says, with ?token=FILE by the token in that file; with
// ?insecure=true the server's certificate is not verified. With ?as=sender each node acts as
// the user that its name says, in the groups of ?groups=A,B: by impersonation, which the
// login must be allowed. If the server lists its resources as Kubernetes does, they are read.
func Open(ctx context.Context, at *url.URL) (replay.Executor, error) {
	e := &executor{base: at.Scheme + "://" + at.Host, paths: map[string][]string{}, watches: &watches{}}
	asked := at.Query()
	for key := range asked {
		if !slices.Contains(options, key) {
			return nil, input.Fieldf("target", "%q is no option of HTTP; %s are", key, strings.Join(options, ", "))
		}
	}
	var err error
	if file := asked.Get("kubeconfig"); file != "" {
		if e.login, err = readKubeconfig(file); err != nil {
			return nil, err
		}
	}
	if file := asked.Get("token"); file != "" {
		token, err := os.ReadFile(file)
		if err != nil {
			return nil, input.Fieldf("target", "token: %v", err)
		}
		e.token = strings.TrimSpace(string(token))
	}
	if asked.Get("insecure") == "true" {
		e.tls = &tls.Config{InsecureSkipVerify: true} // as the user asked
	}
	switch as := asked.Get("as"); {
	case as != "" && as != "sender":
		return nil, input.Fieldf("target", "as: %q is not \"sender\"", as)
	case as == "" && asked.Has("groups"):
		return nil, input.Fieldf("target", "groups: of whom? They go with as=sender")
	default:
		e.as = as == "sender"
	}
	if groups := asked.Get("groups"); groups != "" {
		e.groups = strings.Split(groups, ",")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return e, e.discover(ctx)
}

type executor struct {
	login
	base    string
	as      bool // nodes act as the users that their names say
	groups  []string
	paths   map[string][]string // of a resource, up to the namespace, the usual one first: "leases" is at /apis/coordination.k8s.io/v1
	watches *watches
	pool    *pool // of the clients that all nodes share; nil if each has its own
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
	type version struct{ GroupVersion string }
	var groups struct {
		Groups []struct {
			PreferredVersion version
			Versions         []version
		}
	}
	if status, body, err = e.get(ctx, c, "/apis"); err != nil || status != http.StatusOK || json.Unmarshal(body, &groups) != nil {
		return err // not Kubernetes: resources are paths
	}
	for _, g := range groups.Groups {
		for _, v := range append([]version{g.PreferredVersion}, g.Versions...) {
			path := "/apis/" + v.GroupVersion
			if _, body, err = e.get(ctx, c, path); err != nil {
				return err
			}
			e.learn(path, body)
		}
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
		if !slices.Contains(e.paths[r.Name], path) {
			e.paths[r.Name] = append(e.paths[r.Name], path)
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
	req.Header.Set("User-Agent", agent)
	if e.token != "" {
		req.Header.Set("Authorization", "Bearer "+e.token)
	}
	return req, nil
}

// client makes a client. Over TLS it speaks HTTP/2, as Kubernetes' own clients do: a node
// needs one connection, however many watches it has.
func (e *executor) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig: e.tls, ForceAttemptHTTP2: true, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10, MaxIdleConnsPerHost: 4, DisableCompression: true,
	}}
}

// Share lets all nodes share the connections of n clients. Each still calls as itself.
func (e *executor) Share(n int) replay.Executor {
	shared := *e
	shared.pool = &pool{clients: make([]*http.Client, n)}
	for i := range shared.pool.clients {
		shared.pool.clients[i] = e.client()
	}
	return &shared
}

// A pool is clients that are given out in turn.
type pool struct {
	clients []*http.Client
	given   atomic.Int64
}

func (p *pool) next() *http.Client { return p.clients[int(p.given.Add(1)-1)%len(p.clients)] }

// Dial makes a client for the node. HTTP connects with the first call.
func (e *executor) Dial(_ context.Context, who replay.Identity) (replay.Conn, error) {
	c := &conn{e: e, who: who.Sender}
	if e.pool != nil {
		c.client = e.pool.next()
	} else {
		c.client = e.client()
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

type conn struct {
	e       *executor
	who     string
	client  *http.Client
	life    context.Context // of what is watched
	end     context.CancelFunc
	watched sync.WaitGroup
}

// Multiplexed marks that calls may be made at once: each gets a connection or a stream.
func (c *conn) Multiplexed() {}

// Close ends the watches and closes the connections.
func (c *conn) Close() error {
	c.end()
	c.watched.Wait() // until then their connection is in use
	if c.e.pool == nil {
		c.client.CloseIdleConnections()
	}
	return nil
}

// agent is how the server's own log names the caller.
const agent = "gleaner (replay)"

// sign says who calls. The name of a sender in an audit log is a user and, after a slash,
// the part of its program; client-go tells the server of that in the same place.
func (c *conn) sign(req *http.Request) {
	if !c.e.as {
		return
	}
	user, part, _ := strings.Cut(c.who, "/")
	req.Header.Set("Impersonate-User", user)
	for _, group := range c.e.groups {
		req.Header.Add("Impersonate-Group", group)
	}
	if part != "" {
		req.Header.Set("User-Agent", agent+" gleaner/replay/"+part)
	}
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
	if verb == "watch" || query.Get("watch") == "true" {
		return c.watch(ctx, path, query)
	}
	var body []byte
	if verb == "patch" {
		body = []byte("{}") // one that sets nulls only: an audit log's program has none
	}
	if len(fields) > 0 {
		if body, err = trace.Document(fields); err != nil {
			return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
		}
	}
	req, err := c.e.request(ctx, verbs[verb], withQuery(path, query), body)
	if err != nil {
		return replay.Reply{}, fmt.Errorf("%w: %w", replay.ErrUnsendable, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType(verb, path, query, body))
	}
	c.sign(req)
	resp, err := c.client.Do(req)
	if err != nil {
		return replay.Reply{}, plainly(err)
	}
	defer resp.Body.Close()
	return answer(resp)
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// contentType is the type of a body. An audit log does not have that of a patch: an apply
// patch is recognised by its query and a JSON patch by its being a list. Kubernetes' own
// clients patch its own resources strategically, and only those can be.
func contentType(verb, path string, query url.Values, body []byte) string {
	switch {
	case verb == "apply" || verb == "patch" && query.Has("force"):
		return "application/apply-patch+yaml"
	case verb == "patch" && body[0] == '[':
		return "application/json-patch+json"
	case verb == "patch" && builtIn(path):
		return "application/strategic-merge-patch+json"
	case verb == "patch":
		return "application/merge-patch+json"
	}
	return "application/json"
}

// builtIn reports whether a path is that of a resource of Kubernetes itself: its groups have
// no dots, or end in its own domain.
func builtIn(path string) bool {
	rest, grouped := strings.CutPrefix(path, "/apis/")
	group, _, _ := strings.Cut(rest, "/")
	return strings.HasPrefix(path, "/api/") || grouped && (!strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io"))
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
	body = external(body)
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
	// What is created has its name in the body, and what is listed by name in the query.
	if name != "" && (verb != "create" && verb != "list" && verb != "watch" || sub != "") {
		path += "/" + url.PathEscape(name)
	}
	if sub != "" {
		path += "/" + sub
	}
	return path, query, body, nil
}

// external leaves out the version of a body that the server logged in its internal version:
// it takes only others, and knows what it expects.
func external(body []trace.Leaf) []trace.Leaf {
	if version, _ := trace.Get(body, "apiVersion"); !strings.HasSuffix(version, "/__internal") {
		return body
	}
	return slices.DeleteFunc(body, func(l trace.Leaf) bool { return l.Path == "apiVersion" || l.Path == "kind" })
}

// root is the path of a resource: where the body's version has it, or where it usually is.
func (e *executor) root(resource string, body []trace.Leaf) string {
	version, _ := trace.Get(body, "apiVersion")
	said := "/api/" + version
	if strings.Contains(version, "/") {
		said = "/apis/" + version
	}
	switch at := e.paths[resource]; {
	case len(at) > 0 && !slices.Contains(at, said):
		return at[0]
	case version == "":
		return ""
	}
	return said
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
