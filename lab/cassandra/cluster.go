package cassandra

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gleaner/input"
	"gleaner/lab/engine"
	"gleaner/lab/maven"
)

// Version is the Cassandra that is run.
const Version = "5.0.9"

// Jars is about how many jars Fetch fetches.
const Jars = 100

// DC is the datacenter of the nodes.
const DC = "datacenter1"

//go:embed pom.xml
var pom []byte

// Fetch gives the folder of the jars in the cache. It fetches them once, and
// calls fetched before the first and after each jar; then it has Java prepare
// their classes, which takes as long as to start a node.
func Fetch(ctx context.Context, cache string, fetched func(jars int)) (lib string, err error) {
	dir := filepath.Join(cache, "cassandra-"+Version)
	lib, whole := filepath.Join(dir, "lib"), filepath.Join(dir, "whole")
	if err := maven.Java(); err != nil {
		return "", fmt.Errorf("cassandra: %w", err)
	}
	if _, err := os.Stat(whole); err == nil {
		makeArchive(ctx, lib)
		return lib, ctx.Err()
	}
	if err := maven.Maven(); err != nil {
		return "", fmt.Errorf("cassandra: %w", err)
	}
	if fetched != nil {
		fetched(0)
	}
	if err := maven.Fetch(ctx, pom, lib, fetched); err != nil {
		return "", fmt.Errorf("cassandra: %w", err)
	}
	if err := os.WriteFile(whole, nil, 0o644); err != nil { // written last
		return "", fmt.Errorf("cassandra: %w", err)
	}
	makeArchive(ctx, lib)
	return lib, ctx.Err()
}

// A Setting is how a cluster is started.
type Setting struct {
	Data  string         // the folder for all it writes
	Nodes int            // each on the next address
	First netip.AddrPort // where clients reach the first node
	Heap  string         // of each node's Java machine
	Phi   int            // how surely dead a node must be before others take it for dead; 0: 12, after half a minute
	More  string         // further lines of cassandra.yaml

	archive string // the archive of classes to write when it ends, if any
}

// gossip is the port on which nodes reach each other.
const gossip = 7000

// A Cluster is some nodes that run.
type Cluster struct {
	Nodes []*Node
	lib   string
	set   Setting
	fresh bool // its folder held none before
}

// A Node is one of them, running or not.
type Node struct {
	Address string // where clients reach it
	dir     string
	addr    netip.Addr
	cluster *Cluster
	process *engine.Process
}

// Start starts a cluster with the data that is in its folder, and waits until
// all nodes serve and know each other.
func Start(ctx context.Context, lib string, s Setting) (*Cluster, error) {
	c := &Cluster{lib: lib, set: s}
	addr := s.First.Addr()
	for i := range s.Nodes {
		n := &Node{cluster: c, addr: addr, dir: filepath.Join(s.Data, fmt.Sprint("node", i+1)), Address: netip.AddrPortFrom(addr, s.First.Port()).String()}
		c.Nodes = append(c.Nodes, n)
		addr = addr.Next()
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	for i, n := range c.Nodes {
		if err := n.configure(i); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(c.Nodes))
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() { errs[i] = n.start(ctx, len(c.Nodes)-1) })
	}
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		c.Stop()
		if c.fresh { // else the folder would hold a cluster that never ran
			for _, n := range c.Nodes {
				os.RemoveAll(n.dir)
			}
		}
		return nil, err
	}
	return c, nil
}

// check makes sure that the folder holds as many nodes as are wanted, or none, and that
// the ports are free.
func (c *Cluster) check() error {
	there, err := filepath.Glob(filepath.Join(c.set.Data, "node*", "cassandra.yaml"))
	if err != nil {
		return err
	}
	c.fresh = len(there) == 0
	if !c.fresh && len(there) != len(c.Nodes) {
		return input.Errorf(c.set.Data, "holds a cluster of %d nodes, not %d", len(there), len(c.Nodes))
	}
	for _, n := range c.Nodes {
		for _, address := range []string{n.Address, n.peer()} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return input.Errorf("", "%v", err)
			}
			l.Close()
		}
	}
	return nil
}

func (n *Node) peer() string { return netip.AddrPortFrom(n.addr, gossip).String() }

// configure writes the settings of node i.
//
//   - Writes are on disk before they are confirmed, so what was acknowledged survives SIGKILL.
//   - The second version of Paxos: a conditional write takes two rounds less.
//   - A node on a busy machine is late: others shall not take it for dead.
//   - A node owns one range, so all know at once who owns what.
func (n *Node) configure(i int) error {
	var seeds []string
	for _, other := range n.cluster.Nodes {
		seeds = append(seeds, other.peer())
	}
	nodes := uint64(len(n.cluster.Nodes))
	// Evenly on the ring, on which numbers go round.
	token := int64(^uint64(0)/nodes*uint64(i)) - 1<<62
	text := fmt.Sprintf(`cluster_name: gleaner
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: "%s"}]}]
listen_address: %[2]s
rpc_address: %[2]s
native_transport_port: %[3]d
storage_port: %[4]d
num_tokens: 1
initial_token: "%[5]d"
auto_bootstrap: false
auto_snapshot: false
commitlog_sync: batch
paxos_variant: v2
phi_convict_threshold: %[7]d
cas_contention_timeout: 5s
write_request_timeout: 5s
%[6]s`, strings.Join(seeds, ","), n.addr, n.cluster.set.First.Port(), gossip, token, n.cluster.set.More, cmp.Or(n.cluster.set.Phi, 12))
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return fmt.Errorf("cassandra: %w", err)
	}
	for name, text := range map[string]string{"cassandra.yaml": text, "logback.xml": logging} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("cassandra: %w", err)
		}
	}
	return nil
}

const logging = `<configuration>
  <appender name="O" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %-5level %logger{0} - %msg%n</pattern></encoder></appender>
  <root level="INFO"><appender-ref ref="O"/></root>
</configuration>
`

// What Cassandra needs of Java's insides.
var (
	exports = strings.Fields(`java.base/jdk.internal.misc java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry
		java.rmi/sun.rmi.server java.sql/java.sql java.base/java.lang.ref jdk.unsupported/sun.misc jdk.compiler/com.sun.tools.javac.file jdk.attach/sun.tools.attach`)
	opens = strings.Fields(`java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect
		java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar java.base/sun.nio.ch java.base/java.io
		java.base/java.lang.reflect java.base/java.lang java.base/java.util jdk.management/com.sun.management.internal jdk.compiler/com.sun.tools.javac`)
)

// java is the command line of a node. Only the first of Java's compilers: in the
// first minutes the second takes more than all requests together.
func (n *Node) java() []string {
	args := []string{"-XX:SharedArchiveFile=" + archive(n.cluster.lib)}
	if to := n.cluster.set.archive; to != "" {
		args = []string{"-XX:ArchiveClassesAtExit=" + to}
	}
	for _, e := range exports {
		args = append(args, "--add-exports="+e+"=ALL-UNNAMED")
	}
	for _, o := range opens {
		args = append(args, "--add-opens="+o+"=ALL-UNNAMED")
	}
	return append(args, "-Djdk.attach.allowAttachSelf=true", "-Dio.netty.tryReflectionSetAccessible=true", "-Djava.net.preferIPv4Stack=true",
		"-Xms128m", "-Xmx"+n.cluster.set.Heap, "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+PerfDisableSharedMem",
		"-XX:MaxDirectMemorySize=256m", "-XX:+ExitOnOutOfMemoryError", "-Dlogback.configurationFile="+filepath.Join(n.dir, "logback.xml"),
		"-Dcassandra.config=file://"+filepath.Join(n.dir, "cassandra.yaml"), "-Dcassandra.storagedir="+n.dir, "-Dcassandra-foreground=yes",
		"-Dcassandra.ring_delay_ms=1000", "-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-Dcassandra.memtable.row_overhead_size=181",                                      // not measured at every start
		"-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.shutdown_announce_in_ms=0", // no waiting for others: they are on this machine
		"-Dcassandra.schema_pull_interval_ms=1000", // a node that missed a new table on a busy machine asks for it after a second, not after a minute
		"-cp", filepath.Join(n.cluster.lib, "*"), "org.apache.cassandra.service.CassandraDaemon")
}

// start starts the node and waits until it serves and sees so many others.
func (n *Node) start(ctx context.Context, others int) (err error) {
	n.process, err = engine.Start(ctx, "cassandra", n.dir, exec.Command("java", n.java()...), func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", n.Address)
		if err != nil {
			return err
		}
		conn.Close()
		if seen := n.seen(); seen < others {
			return fmt.Errorf("it sees %d of %d others", seen, others)
		}
		return nil
	})
	return err
}

var nowUp = regexp.MustCompile(`(\S+) is now UP`)

// seen is how many other nodes this one has seen up since it started.
func (n *Node) seen() int {
	text, err := os.ReadFile(filepath.Join(n.dir, "cassandra.log"))
	if err != nil {
		return 0
	}
	others := map[string]bool{}
	for _, m := range nowUp.FindAllSubmatch(text, -1) {
		others[string(m[1])] = true
	}
	return len(others)
}

// Kill ends the node with SIGKILL, as a crash of its machine would.
func (n *Node) Kill() { n.process.Kill() }

// Restart starts a node that was killed, and waits until it serves and sees another.
func (n *Node) Restart(ctx context.Context) error {
	return n.start(ctx, min(1, len(n.cluster.Nodes)-1))
}

// Log is the file that the node writes its log to.
func (n *Node) Log() string { return n.process.Log }

// Hosts are the addresses of all nodes, as one list.
func (c *Cluster) Hosts() string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Address)
	}
	return strings.Join(hosts, ",")
}

// Store is the address of a store in a keyspace of the cluster.
func (c *Cluster) Store(keyspace string) string {
	return "cassandra://" + c.Hosts() + "/" + keyspace + "?dc=" + DC + "&replicas=" + strconv.Itoa(min(3, len(c.Nodes)))
}

// Wait returns when the context ends, or with an error when a node ended by itself.
func (c *Cluster) Wait(ctx context.Context) error {
	ended := make(chan *engine.Process, len(c.Nodes))
	for _, n := range c.Nodes {
		go func() {
			<-n.process.Done()
			ended <- n.process
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-ended:
		if ctx.Err() != nil { // Ctrl-C reached it, too
			return nil
		}
		return p.Failure()
	}
}

// Kill ends all nodes with SIGKILL: at once, for a cluster whose data nobody wants any more.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// Stop ends all nodes.
func (c *Cluster) Stop() {
	var all sync.WaitGroup
	for _, n := range c.Nodes {
		if n.process != nil {
			all.Go(n.process.Stop)
		}
	}
	all.Wait()
}
