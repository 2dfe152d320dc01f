package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"gleaner/input"
	"gleaner/kv"
)

const (
	// timeout is longer than any of Cassandra's own, so that it is Cassandra that
	// says what it could not do.
	timeout = 15 * time.Second
	// reconnect is how often a node that is down is tried again.
	reconnect = 2 * time.Second
	// tries of a read, or of a write that may be repeated: one a node of three, and one more.
	tries = 4
	// skew is how far clocks may be apart: Cassandra decides by clocks which of
	// two writes of a loose table is the later, and leases end by clocks.
	skew = 10 * time.Second
)

// config is how the driver is set up for an address.
func config(a Address) (*gocql.ClusterConfig, error) {
	c := gocql.NewCluster(a.Hosts...)
	c.Timeout, c.ConnectTimeout = timeout, timeout/3
	c.ReconnectInterval = reconnect
	c.Dialer = dialer{(&net.Dialer{Timeout: timeout / 3}).DialContext, patience}
	c.Consistency, c.SerialConsistency = gocql.Quorum, gocql.Serial
	c.Metadata.CacheMode = gocql.KeyspaceOnly // enough to know the replicas of a part
	c.MaxWaitSchemaAgreement = 1              // hardly: the driver would wait for nodes that are down, too; see createTable
	c.Logger = gocql.NewLogger(gocql.LogLevelNone)
	fallback := gocql.RoundRobinHostPolicy()
	if a.DC != "" {
		fallback = gocql.DCAwareRoundRobinPolicy(a.DC)
	}
	// The replicas in the same order for everyone: then writes of one part meet at one
	// coordinator, where they get in each other's way least.
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(fallback, gocql.DoNotShuffleReplicas())
	user, password, err := a.login()
	if err != nil {
		return nil, err
	}
	if user != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
	}
	if a.TLS {
		c.SslOpts, err = a.tls()
	}
	return c, err
}

func (a Address) tls() (*gocql.SslOptions, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		text, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, input.Errorf(a.CA, "cannot be read: %v", errors.Unwrap(err))
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return nil, input.Errorf(a.CA, "has no certificate")
		}
	}
	if a.Cert != "" {
		pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, input.Errorf(a.Cert, "cannot be used with %s: %v", a.Key, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return &gocql.SslOptions{Config: t, EnableHostVerification: true}, nil
}

// connect connects to the nodes, and checks that they are fit for a store.
func (s *Store) connect(ctx context.Context, c *gocql.ClusterConfig) (err error) {
	type dialled struct {
		session *gocql.Session
		err     error
	}
	done := make(chan dialled, 1) // the driver takes no context here
	go func() {
		session, err := c.CreateSession()
		done <- dialled{session, err}
	}()
	select {
	case d := <-done:
		s.session, err = d.session, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.session != nil {
				d.session.Close()
			}
		}()
		return ctx.Err()
	}
	if err != nil {
		return s.refused(unreachable(err))
	}
	if err := s.inspect(ctx); err != nil {
		s.session.Close()
		return err
	}
	return nil
}

// unreachable makes the driver's error of a session that was not created one
// line of ours. It has no kinds, so its text must do.
func unreachable(err error) error {
	text := strings.TrimPrefix(err.Error(), "gocql: unable to create session: ")
	switch {
	case strings.Contains(text, "password are incorrect"), strings.Contains(text, "Bad credentials"):
		return errors.New("the user or the password is wrong")
	case strings.Contains(text, "authentication required"):
		return fmt.Errorf("it needs a user and a password: put them into a file named by login=, or into %s and %s", userVariable, passwordVariable)
	}
	text = strings.TrimPrefix(text, "unable to discover protocol version: ")
	text, _, _ = strings.Cut(text, "\n")
	return fmt.Errorf("no host answers: %s", text)
}

// refused is the error for a store that cannot be used as it is. The user must do something.
func (s *Store) refused(err error) error {
	return &input.Error{Where: s.at.String(), Msg: err.Error(), Err: err}
}

// inspect checks the partitioner, the datacenter and the clocks.
func (s *Store) inspect(ctx context.Context) error {
	var partitioner string
	if err := s.safe(`SELECT partitioner FROM system.local WHERE key = 'local'`).Consistency(gocql.One).ScanContext(ctx, &partitioner); err != nil {
		return s.failed("look at", err)
	}
	if !strings.HasSuffix(partitioner, ".Murmur3Partitioner") {
		return s.refused(fmt.Errorf("its partitioner is %s; a store needs Murmur3Partitioner", partitioner))
	}
	var dcs []string
	for _, h := range s.session.GetHosts() {
		dcs = append(dcs, h.DataCenter())
	}
	slices.Sort(dcs)
	dcs = slices.Compact(dcs)
	switch {
	case s.at.DC == "" && len(dcs) > 1:
		return s.refused(fmt.Errorf("it has the datacenters %s; say which is yours, as dc=%s", strings.Join(dcs, ", "), dcs[0]))
	case s.at.DC == "":
		s.at.DC = dcs[0]
	case !slices.Contains(dcs, s.at.DC):
		return s.refused(fmt.Errorf("it has no datacenter %s, but %s", s.at.DC, strings.Join(dcs, ", ")))
	}
	return s.clocks(ctx)
}

// clocks compares this machine's clock with each node's.
func (s *Store) clocks(ctx context.Context) error {
	for _, h := range s.session.GetHosts() {
		var there time.Time
		before := s.clock()
		err := s.safe(`SELECT toTimestamp(now()) FROM system.local WHERE key = 'local'`).Consistency(gocql.One).SetHostID(h.HostID()).ScanContext(ctx, &there)
		if err != nil {
			continue // it is down; what that means, the first read of a record tells
		}
		if apart := distance(there, before, s.clock()); apart > skew {
			return s.refused(fmt.Errorf("the clocks of %s and of this machine are %v apart; at most %v will do", net.JoinHostPort(h.ConnectAddress().String(), fmt.Sprint(h.Port())), apart.Round(time.Second), skew))
		}
	}
	return ctx.Err()
}

// distance is how far there is from a moment between before and after.
func distance(there, before, after time.Time) time.Duration {
	return max(before.Sub(there), there.Sub(after), 0)
}

// again repeats what failed at another node.
func again() gocql.RetryPolicy { return &gocql.SimpleRetryPolicy{NumRetries: tries - 1} }

// patient repeats what failed after a while, each time after a longer one: nodes that have too much to write need time.
type patient struct {
	gocql.ExponentialBackoffRetryPolicy
}

func patiently() gocql.RetryPolicy {
	return &patient{gocql.ExponentialBackoffRetryPolicy{NumRetries: 2 * tries, Min: 100 * time.Millisecond, Max: 5 * time.Second}}
}

// GetRetryType has the same node asked again if it answered: there may be no other.
func (*patient) GetRetryType(err error) gocql.RetryType {
	var answer gocql.RequestError
	if errors.As(err, &answer) {
		return gocql.Retry
	}
	return gocql.RetryNextHost
}

// safe is a query that may be repeated.
func (s *Store) safe(stmt string, values ...any) *gocql.Query {
	return s.session.Query(stmt, values...).Idempotent(true).RetryPolicy(again())
}

// failed wraps an error of the driver.
func (s *Store) failed(did string, err error) error {
	return fmt.Errorf("kv: %s %s: %w", did, s.at.Keyspace, plain(err))
}

// plain says in plain words what the user can do something about.
func plain(err error) error {
	var few *gocql.RequestErrUnavailable
	if errors.As(err, &few) {
		return fmt.Errorf("%d of the %d replicas that %s needs are up: %w", few.Alive, few.Required, few.Consistency, err)
	}
	return err
}

// settled gives the error of a compare-and-set. Unless it surely was not applied,
// that is kv.ErrUnknown. Surely not applied is what
//
//   - was never sent, as there is no connection;
//   - was refused as a statement: it is bad, or this user may not, or a setting of the
//     server forbids it (all are checked before anything is done);
//   - found too few replicas for SERIAL, which is counted before the first message to any. At
//     another level it is the commit that found too few, after the write was decided.
//
// A node that is overloaded may say so at any stage, and so may any other error.
func settled(err error) error {
	var few *gocql.RequestErrUnavailable
	var refused gocql.RequestError
	switch {
	case errors.Is(err, gocql.ErrNoConnections):
		return err
	case errors.As(err, &few) && few.Consistency == gocql.Serial:
		return plain(err)
	case errors.As(err, &refused) && slices.Contains(refusals, refused.Code()):
		return err
	}
	return fmt.Errorf("%w: %w", kv.ErrUnknown, plain(err))
}

var refusals = []int{gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeInvalid, gocql.ErrCodeConfig}
