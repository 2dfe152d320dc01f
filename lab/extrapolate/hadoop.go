package extrapolate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gleaner/input"
	"gleaner/lab"
	"gleaner/lab/hadoop"
	"gleaner/lab/maven"
	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/hadooprpc"
	"gleaner/trace/replay/judge"
)

// nameNode is the calls of WordCount to an HDFS NameNode.
func nameNode(o lab.Options) Target {
	t := Target{
		Name: "namenode", Unit: "nodes", Learn: []int{3, 4, 6, 8, 12}, Check: 26,
		Override: hadoop.WordCount, Compress: 20,
		Trace: recordedAt(o.Traces), Start: startNameNode,
		Sweep: []int{100, 1000, 5000, 10000, 20000, 40000}, Time: 30 * time.Second, Pace: time.Millisecond,
		Own: 10000, Share: 2000,
		Limits: judge.Limits{Lag: 300 * time.Millisecond}, // a tenth of a beat
		// A node that must register again was declared dead.
		Lost: func(c *trace.Call) bool {
			order, _ := trace.Get(c.Response, "cmds[0].cmdType")
			return c.Method == "DatanodeProtocol.sendHeartbeat" && order == "RegisterCommand"
		},
		Ready:   func(c *trace.Call) bool { return c.Method == "DatanodeProtocol.blockReport" && c.End > 0 },
		StartUp: "a data node's first call until its first block report is taken",
		Paper:   nameNodeFigures(),
	}
	switch {
	case o.Quick:
		t.Time = 5 * time.Second
	case o.Full:
		t.Time = 0
	}
	return t
}

// resourceManager is the calls of WordCount to a YARN Resource Manager.
func resourceManager(o lab.Options) Target {
	t := nameNode(o)
	t.Name, t.Start, t.Compress = "resourcemanager", startResourceManager, 5
	t.Own = 0                             // it identifies nodes by their addresses
	t.Limits.Lag = 100 * time.Millisecond // a tenth of a beat
	t.Paper = resourceManagerFigures()
	t.Lost = func(c *trace.Call) bool {
		order, _ := trace.Get(c.Response, "nodeAction")
		return c.Method == "ResourceTracker.nodeHeartbeat" && (order == "RESYNC" || order == "SHUTDOWN")
	}
	t.Begins = func(c *trace.Call) bool { return c.Method == "ApplicationClientProtocol.submitApplication" }
	t.Ready = func(c *trace.Call) bool {
		_, granted := trace.Get(c.Response, "allocated_containers[0].id.id")
		return c.Method == "ApplicationMasterProtocol.allocate" && granted
	}
	t.StartUp = "the job's submission until containers are granted, on average over the replies that grant some"
	t.Sweep = []int{100, 1000, 2000, 5000, 10000}
	if o.Quick {
		t.Sweep, t.Time = []int{100, 1000, 10000}, 12*time.Second // the job asks in ten rounds, a second apart
	}
	return t
}

// recordedAt finds the first existing trace by the scale in its name.
func recordedAt(dir string) func(context.Context, string, int) ([]string, error) {
	return func(ctx context.Context, work string, scale int) ([]string, error) {
		all, err := allRecordedAt(dir)(ctx, work, scale)
		return all[:min(1, len(all))], err
	}
}

// allRecordedAt finds all existing traces by the scale in their names.
func allRecordedAt(dir string) func(context.Context, string, int) ([]string, error) {
	return func(_ context.Context, _ string, scale int) (all []string, _ error) {
		if dir == "" {
			return nil, input.Fieldf("traces", "name the directory with recorded traces of the job, n003.jsonl.gz and so on")
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			return nil, input.Fieldf("traces", "%v", err)
		}
		for _, f := range files {
			if name := filepath.Join(dir, f.Name()); strings.Contains(f.Name(), ".jsonl") && trace.ScaleOf(name) == scale {
				all = append(all, name)
			}
		}
		if len(all) > 0 {
			return all, nil
		}
		return nil, input.Fieldf("traces", "%s has no trace of scale %d", dir, scale)
	}
}

// startNameNode starts a fresh NameNode to play to.
func startNameNode(ctx context.Context, dir string) (*System, error) {
	return startHadoop(ctx, dir, hadoop.StartNameNode, nil, func(ctx context.Context, m *hadoop.Master) (string, error) {
		is, err := m.Metrics(ctx, "Hadoop:service=NameNode,name=FSNamesystemState")
		calls, bad := callMetrics(ctx, m, "NameNode", 0)
		return fmt.Sprintf("%v live, %v dead, %v blocks, %v files and folders; %s", is["NumLiveDataNodes"], is["NumDeadDataNodes"], is["BlocksTotal"], is["FilesTotal"], calls), errors.Join(err, bad)
	})
}

// startResourceManager starts a fresh Resource Manager to play to. The nodes
// listen where the overrides say.
func startResourceManager(ctx context.Context, dir string) (*System, error) {
	return startHadoop(ctx, dir, hadoop.StartResourceManager, url.Values{"nodes": {"45454"}}, func(ctx context.Context, m *hadoop.Master) (string, error) {
		nodes, err := m.Metrics(ctx, "Hadoop:service=ResourceManager,name=ClusterMetrics")
		queue, bad := m.Metrics(ctx, "Hadoop:service=ResourceManager,name=QueueMetrics,q0=root")
		const ofNodes = 1 // the second of its ports
		calls, worse := callMetrics(ctx, m, "ResourceManager", ofNodes)
		return fmt.Sprintf("%v active, %v lost, %v containers granted; %s", nodes["NumActiveNMs"], nodes["NumLostNMs"], queue["AggregateContainersAllocated"], calls), errors.Join(err, bad, worse)
	})
}

// callMetrics is what a master says about the calls to one of its ports, and about its
// memory.
func callMetrics(ctx context.Context, m *hadoop.Master, service string, port int) (string, error) {
	at, err := netip.ParseAddrPort(m.Address)
	if err != nil {
		return "", fmt.Errorf("extrapolate: %w", err)
	}
	calls, err := m.Metrics(ctx, fmt.Sprintf("Hadoop:service=%s,name=RpcActivityForPort%d", service, int(at.Port())+port))
	memory, bad := m.Metrics(ctx, "Hadoop:service="+service+",name=JvmMetrics")
	return fmt.Sprintf("calls wait %v ms in its queue (%v now) and take %v ms, GC %v ms", calls["RpcQueueTimeAvgTime"], calls["CallQueueLength"], calls["RpcProcessingTimeAvgTime"], memory["GcTimeMillis"]), errors.Join(err, bad)
}

func startHadoop(ctx context.Context, dir string, start func(context.Context, hadoop.Jars, hadoop.Setting) (*hadoop.Master, error), query url.Values,
	says func(context.Context, *hadoop.Master) (string, error)) (*System, error) {
	cache, err := maven.Cache()
	if err != nil {
		return nil, err
	}
	jars, err := hadoop.Fetch(ctx, cache, nil)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("extrapolate: %w", err)
	}
	m, err := start(ctx, jars, hadoop.Setting{Data: dir, Heap: "2g"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := func() {
		cancel()
		m.Stop()
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("descriptors", jars.Descriptors)
	executor, err := hadooprpc.Open(ctx, &url.URL{Scheme: "hadoop", Host: m.Address, RawQuery: query.Encode()})
	if err != nil {
		stop()
		return nil, err
	}
	return &System{PID: m.PID(), Targets: map[string]replay.Executor{m.Name: executor}, Stop: stop,
		Says: func(ctx context.Context) (string, error) { return says(ctx, m) }}, nil
}
