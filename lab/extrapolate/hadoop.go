package extrapolate

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"gleaner/input"
	"gleaner/lab"
	"gleaner/lab/hadoop"
	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/hadooprpc"
)

// nameNode is WordCount as its nodes ask it of an HDFS NameNode.
func nameNode(o lab.Options) Target {
	t := Target{
		Name: "namenode", Unit: "nodes", Learn: []int{3, 4, 6, 8, 12}, Check: 26,
		Override: hadoop.WordCount, Compress: 20,
		Trace: recordedAt(o.Traces), Start: startNameNode,
		Sweep: []int{100, 1000, 5000, 10000}, Time: 40 * time.Second,
		Limits: replay.Limits{Lag: 300 * time.Millisecond}, // a tenth of a beat
		// A node that is to register again was taken for dead.
		Lost: func(c *trace.Call) bool {
			order, _ := trace.Get(c.Response, "cmds[0].cmdType")
			return c.Method == "DatanodeProtocol.sendHeartbeat" && order == "RegisterCommand"
		},
		Ready: func(c *trace.Call) bool { return c.Method == "DatanodeProtocol.blockReport" && c.End > 0 },
		Paper: otherFigures(),
	}
	switch {
	case o.Quick:
		t.Sweep, t.Time = []int{100, 400}, 20*time.Second
	case o.Full:
		t.Time = 0
	}
	return t
}

// resourceManager is WordCount as its nodes ask it of a YARN Resource Manager.
func resourceManager(o lab.Options) Target {
	t := nameNode(o)
	t.Name, t.Start, t.Compress = "resourcemanager", startResourceManager, 5
	t.Limits.Lag = 100 * time.Millisecond
	t.Lost = func(c *trace.Call) bool {
		order, _ := trace.Get(c.Response, "nodeAction")
		return c.Method == "ResourceTracker.nodeHeartbeat" && (order == "RESYNC" || order == "SHUTDOWN")
	}
	t.Ready = func(c *trace.Call) bool { return c.Method == "ResourceTracker.registerNodeManager" && c.End > 0 }
	if !o.Quick {
		t.Sweep = []int{100, 500, 1000, 2000}
	}
	return t
}

// recordedAt finds traces that somebody has recorded, by the scale in their names.
func recordedAt(dir string) func(context.Context, string, int) (string, error) {
	return func(_ context.Context, _ string, scale int) (string, error) {
		if dir == "" {
			return "", input.Errorf("--traces", "name the directory with recorded traces of the job, n003.jsonl.gz and so on")
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.jsonl*"))
		if err != nil {
			return "", input.Errorf("--traces", "%v", err)
		}
		for _, f := range files {
			if trace.ScaleOf(f) == scale {
				return f, nil
			}
		}
		return "", input.Errorf("--traces", "%s has no trace of scale %d", dir, scale)
	}
}

// startNameNode starts a fresh NameNode to play to.
func startNameNode(ctx context.Context, dir string) (*System, error) {
	return startHadoop(ctx, dir, hadoop.StartNameNode, nil)
}

// startResourceManager starts a fresh Resource Manager to play to. The nodes
// answer where the overrides say they do.
func startResourceManager(ctx context.Context, dir string) (*System, error) {
	return startHadoop(ctx, dir, hadoop.StartResourceManager, url.Values{"nodes": {"25454"}})
}

func startHadoop(ctx context.Context, dir string, start func(context.Context, hadoop.Jars, hadoop.Setting) (*hadoop.Master, error), query url.Values) (*System, error) {
	cache, err := hadoop.Cache()
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
	return &System{Targets: map[string]replay.Executor{m.Name: executor}, Stop: stop}, nil
}
