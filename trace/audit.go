package trace

import (
	"net/url"
	"strings"
)

// An event is one audit event as far as the reader needs it: of Kubernetes
// (audit.k8s.io) or with Hadoop RPC inside (hadoop-rpc).
type event struct {
	version, stage, uri, verb, user, agent string
	resource, subresource, namespace, name string
}

// audit reads one audit event from p into c. It reports the stage, because a
// watch is logged when it starts and once more when it ends.
func (c *Call) audit(p *scanner) (stage string, err error) {
	var e event
	err = p.fields(func(key string) (err error) {
		switch key {
		case "apiVersion":
			e.version, err = p.str()
		case "stage":
			e.stage, err = p.str()
		case "auditID":
			c.ID, err = p.str()
		case "requestURI":
			e.uri, err = p.str()
		case "verb":
			e.verb, err = p.str()
		case "userAgent":
			e.agent, err = p.str()
		case "user":
			var name string
			if name, err = p.member("username"); e.user == "" {
				e.user = name
			}
		case "impersonatedUser": // whom the server took the sender for
			e.user, err = p.member("username")
		case "sourceIPs":
			err = p.items('[', ']', func(i int) error {
				address, err := p.str()
				if i == 0 {
					c.Address = address
				}
				return err
			})
		case "objectRef":
			err = p.object(&e)
		case "responseStatus":
			c.Status, err = p.member("code")
		case "requestObject":
			c.Request, err = p.leaves(c.Request)
		case "responseObject":
			c.Response, err = p.leaves(c.Response)
		case "requestReceivedTimestamp":
			c.Start, err = p.instant()
		case "stageTimestamp":
			c.End, err = p.instant()
		default:
			err = p.skip()
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(e.version, "hadoop-rpc/") {
		e.hadoop(c)
	} else {
		e.kubernetes(c)
	}
	return e.stage, c.complete()
}

// member reads one scalar member of an object.
func (p *scanner) member(name string) (value string, err error) {
	err = p.members(func(key string) (err error) {
		if key != name {
			return p.skip()
		}
		_, value, err = p.scalar()
		return err
	})
	return value, err
}

func (p *scanner) object(e *event) error {
	return p.members(func(key string) (err error) {
		switch key {
		case "resource":
			e.resource, err = p.str()
		case "subresource":
			e.subresource, err = p.str()
		case "namespace":
			e.namespace, err = p.str()
		case "name":
			e.name, err = p.str()
		default:
			err = p.skip()
		}
		return err
	})
}

func (e *event) hadoop(c *Call) {
	c.Sender, c.Target, c.Method = e.user, e.resource, e.verb
}

// kubernetes sets the method of a request to the API server: the verb and the resource.
// Parts of the request's URL become arguments.
func (e *event) kubernetes(c *Call) {
	c.Sender, c.Target = e.user, "apiserver"
	if part := component(e.agent); part != "" {
		c.Sender += "/" + part
	}
	path, query, _ := strings.Cut(e.uri, "?")
	var where []Leaf
	if e.resource == "" {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		c.Method = e.verb + " /" + first
		where = append(where, Leaf{Path: "@path", Kind: String, Value: path})
	} else {
		c.Method = e.verb + " " + e.resource
		if e.subresource != "" {
			c.Method += "/" + e.subresource
		}
		if e.namespace != "" {
			where = append(where, Leaf{Path: "@namespace", Kind: String, Value: e.namespace})
		}
		if e.name != "" {
			where = append(where, Leaf{Path: "@name", Kind: String, Value: e.name})
		}
	}
	c.Request = append(append(where, queryLeaves(query)...), c.Request...)
}

// component is the part of a program that made the call: client-go appends it to the
// user agent ("kcm/v1 (linux/amd64) kubernetes/abc/job-controller").
func component(agent string) string {
	_, rest, found := strings.Cut(agent, ") ")
	if !found {
		return ""
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[len(parts)-1]
}

func queryLeaves(query string) []Leaf {
	var out []Leaf
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if key == "" {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		out = append(out, Leaf{Path: "@query." + key, Kind: String, Value: value})
	}
	return out
}
