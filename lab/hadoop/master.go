package hadoop

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Setting is how a master is started.
type Setting struct {
	Data string // the folder for all it writes
	Port int    // the first of its ports; 0: free ones
	Web  int    // the port of its web page; 0: a free one
	Heap string // of the Java machine; empty: "512m"
	// More are properties of Hadoop that override what is set here.
	More map[string]string
}

// A Master is a running NameNode or Resource Manager.
type Master struct {
	Name    string
	Address string   // the first of its ports: the target of a replay
	Web     string   // where its web page and metrics are, as http://host:port
	Log     string   // the file it writes to
	line    []string // its Java command line up to the class
	command *exec.Cmd
	ended   chan struct{} // closed when it has ended
	err     error         // why, once ended
}

// StartNameNode formats a NameNode if needed, starts it and waits until it answers.
func StartNameNode(ctx context.Context, jars Jars, s Setting) (*Master, error) {
	if _, err := os.Stat(filepath.Join(s.Data, names[0], namespace)); err == nil {
		return nil, fmt.Errorf("%w: %s is that of a pair of NameNodes", ErrOther, s.Data)
	}
	ports, err := freePorts(s.Port, 1, s.Web)
	if err != nil {
		return nil, err
	}
	m := &Master{Name: "namenode", Address: local(ports[0]), Web: "http://" + local(ports[1])}
	site := map[string]string{
		"fs.defaultFS":               "hdfs://" + m.Address,
		"hadoop.tmp.dir":             s.Data,
		"dfs.namenode.rpc-bind-host": "127.0.0.1",
		"dfs.namenode.http-address":  local(ports[1]),
		"dfs.namenode.datanode.registration.ip-hostname-check": "false",
		"dfs.permissions.enabled":                              "false",
		"dfs.namenode.safemode.extension":                      "0",
	}
	if err := m.prepare(jars, s, site, "webapps/hdfs", "webapps/static"); err != nil {
		return nil, err
	}
	const class = "org.apache.hadoop.hdfs.server.namenode.NameNode"
	if _, err := os.Stat(filepath.Join(s.Data, namespace, "current")); err != nil {
		out, err := m.java(ctx, class, "-format", "-nonInteractive").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("hadoop: format the NameNode: %w: %s", err, reason(out))
		}
	}
	return m, m.start(ctx, class)
}

// StartResourceManager starts a Resource Manager and waits until it answers.
func StartResourceManager(ctx context.Context, jars Jars, s Setting) (*Master, error) {
	ports, err := freePorts(s.Port, 4, s.Web)
	if err != nil {
		return nil, err
	}
	m := &Master{Name: "resourcemanager", Address: local(ports[0]), Web: "http://" + local(ports[4])}
	site := map[string]string{
		"hadoop.tmp.dir":                                        s.Data,
		"yarn.resourcemanager.hostname":                         "127.0.0.1",
		"yarn.resourcemanager.scheduler.address":                local(ports[0]),
		"yarn.resourcemanager.resource-tracker.address":         local(ports[1]),
		"yarn.resourcemanager.address":                          local(ports[2]),
		"yarn.resourcemanager.admin.address":                    local(ports[3]),
		"yarn.resourcemanager.webapp.address":                   local(ports[4]),
		"yarn.scheduler.minimum-allocation-mb":                  "512",
		"yarn.scheduler.capacity.root.queues":                   "default",
		"yarn.scheduler.capacity.root.default.capacity":         "100",
		"yarn.scheduler.capacity.maximum-am-resource-percent":   "1.0",
		"yarn.scheduler.capacity.root.default.maximum-capacity": "100",
	}
	if err := m.prepare(jars, s, site); err != nil {
		return nil, err
	}
	return m, m.start(ctx, "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager")
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts returns n consecutive ports, from first on if that is not 0, and one
// more, which is extra if that is not 0. They are below the ephemeral ports, of which
// players use many.
func freePorts(first, n, extra int) ([]int, error) {
	err := errors.New("no free ports")
	for range 100 {
		base := first
		if base == 0 {
			base = 10000 + rand.IntN(20000)
		}
		var ports []int
		for i := range n {
			ports = append(ports, base+i)
		}
		ports = append(ports, cmp.Or(extra, 10000+rand.IntN(20000)))
		if err = free(ports); err == nil || first != 0 && !errors.Is(err, syscall.EADDRINUSE) {
			return ports, err
		}
	}
	return nil, fmt.Errorf("hadoop: %w", err)
}

func free(ports []int) error {
	for _, p := range ports {
		if err := tryPort(p); err != nil {
			return err
		}
	}
	return nil
}

func tryPort(port int) error {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return err
	}
	return l.Close()
}

const logging = `log4j.rootLogger=WARN,C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
`

// prepare writes the configuration, and notes the Java command line up to the class.
func (m *Master) prepare(jars Jars, s Setting, site map[string]string, folders ...string) error {
	conf := filepath.Join(s.Data, "conf")
	for _, f := range append(folders, "") {
		if err := os.MkdirAll(filepath.Join(conf, f), 0o755); err != nil {
			return fmt.Errorf("hadoop: %w", err)
		}
	}
	maps.Copy(site, s.More)
	// Nodes call from many loopback addresses without names; asking a name server
	// for each would take longer than the call.
	host, _ := os.Hostname()
	files := map[string]string{"log4j.properties": logging, "hosts": "127.0.0.1 localhost " + host + "\n"}
	// Each kind of file overrides the defaults of the kinds before it.
	for _, name := range []string{"core-site.xml", "hdfs-site.xml", "yarn-site.xml", "capacity-scheduler.xml"} {
		files[name] = properties(site)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(conf, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("hadoop: %w", err)
		}
	}
	heap := s.Heap
	if heap == "" {
		heap = "512m"
	}
	m.Log = filepath.Join(s.Data, m.Name+".log")
	// Only the first of Java's compilers: in the first minute the second uses more
	// of two cores than all calls together, and makes them no faster.
	m.line = []string{"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true", "-Djdk.net.hosts.file=" + filepath.Join(conf, "hosts"),
		"--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", conf + ":" + filepath.Join(jars.Lib, "*")}
	return nil
}

// properties writes a configuration file of Hadoop.
func properties(site map[string]string) string {
	var out strings.Builder
	out.WriteString("<configuration>\n")
	for _, name := range slices.Sorted(maps.Keys(site)) {
		out.WriteString("  <property><name>")
		xml.EscapeText(&out, []byte(name))
		out.WriteString("</name><value>")
		xml.EscapeText(&out, []byte(site[name]))
		out.WriteString("</value></property>\n")
	}
	out.WriteString("</configuration>\n")
	return out.String()
}

// java is the command of a class with the master's configuration.
func (m *Master) java(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "java", slices.Concat(m.line, args)...)
	cmd.Env = append(os.Environ(), "HADOOP_USER_NAME=hadoop")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// start runs the master; it ends with the context, or by Stop.
func (m *Master) start(ctx context.Context, class string) error {
	log, err := os.Create(m.Log)
	if err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	defer log.Close()
	m.command = m.java(ctx, class)
	m.command.Stdout, m.command.Stderr = log, log
	if err := m.command.Start(); err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	m.ended = make(chan struct{})
	go func() {
		m.err = m.command.Wait()
		close(m.ended)
	}()
	return m.await(ctx)
}

// await returns when the master accepts connections and its web page answers.
func (m *Master) await(ctx context.Context) error {
	const patience = 2 * time.Minute
	deadline := time.After(patience)
	for {
		select {
		case <-m.ended:
			out, _ := os.ReadFile(m.Log)
			return fmt.Errorf("hadoop: the %s ended before it was up: %s (all of it in %s)", m.Name, reason(out), m.Log)
		case <-ctx.Done():
			m.Stop()
			return ctx.Err()
		case <-deadline:
			m.Stop()
			return fmt.Errorf("hadoop: the %s was not up after %v; see %s", m.Name, patience, m.Log)
		case <-time.After(100 * time.Millisecond):
		}
		if answers(m.Address) && answers(strings.TrimPrefix(m.Web, "http://")) {
			return nil
		}
	}
}

func answers(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// reason finds why a Java program failed: the innermost cause, or its last error.
func reason(out []byte) string {
	said := "it gave no reason"
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if cause, ok := strings.CutPrefix(line, "Caused by: "); ok {
			said = cause
		} else if strings.Contains(line, " ERROR ") || strings.Contains(line, " FATAL ") {
			said = line
		}
	}
	return said
}

// PID is the process id.
func (m *Master) PID() int { return m.command.Process.Pid }

// Wait returns when the master has ended, without an error if it was stopped.
func (m *Master) Wait() error {
	<-m.ended
	const terminated = 128 + int(syscall.SIGTERM) // as Java says it
	if m.command.ProcessState.ExitCode() == terminated {
		return nil
	}
	return m.err
}

// Kill ends the master at once, as a crash does, and waits until it is gone.
func (m *Master) Kill() {
	_ = m.command.Process.Kill() // it may have ended already
	<-m.ended
}

// Stop ends the master and waits until it is gone.
func (m *Master) Stop() {
	if err := m.command.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case <-m.ended:
	case <-time.After(10 * time.Second):
		m.command.Process.Kill()
		<-m.ended
	}
}
