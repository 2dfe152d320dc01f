package hadoop_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"gleaner/lab/hadoop"
	"gleaner/lab/maven"
	"gleaner/trace"
	"gleaner/trace/replay"
	"gleaner/trace/replay/hadooprpc"
)

// jars returns Hadoop's jars, or skips.
func jars(t *testing.T) hadoop.Jars {
	t.Helper()
	if os.Getenv("GLEANER_LONG") == "" {
		t.Skip("set GLEANER_LONG=1 to fetch Hadoop's jars and start its masters; it takes minutes")
	}
	cache, err := maven.Cache()
	if err != nil {
		t.Skip(err)
	}
	j, err := hadoop.Fetch(t.Context(), cache, nil)
	if err != nil {
		t.Skip(err)
	}
	return j
}

func executor(t *testing.T, j hadoop.Jars, m *hadoop.Master) *hadooprpc.Executor {
	t.Helper()
	return &hadooprpc.Executor{Schema: schemaOf(t, j), Address: m.Address}
}

func schemaOf(t *testing.T, j hadoop.Jars) *hadooprpc.Schema {
	t.Helper()
	set, err := os.ReadFile(j.Descriptors)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := hadooprpc.ReadSchema(set)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// A teller makes calls written as "path=value path=value" and fails the test
// when one is refused.
type teller struct {
	t    *testing.T
	conn replay.Conn
}

func (e teller) try(method string, args ...string) replay.Reply {
	e.t.Helper()
	call := &trace.Call{Method: method}
	for _, a := range args {
		path, value, _ := strings.Cut(a, "=")
		call.Request = append(call.Request, trace.Leaf{Path: path, Kind: trace.String, Value: value})
	}
	reply, err := e.conn.Call(e.t.Context(), call)
	if err != nil {
		e.t.Fatal(err)
	}
	return reply
}

func (e teller) call(method string, args ...string) func(path string) string {
	e.t.Helper()
	reply := e.try(method, args...)
	if reply.Status != "200" {
		e.t.Fatalf("%s refused: %s %s", method, reply.Status, reply.Message)
	}
	return func(path string) string {
		e.t.Helper()
		v, ok := trace.Get(reply.Leaves, path)
		if !ok {
			e.t.Fatalf("%s: no %s in %v", method, path, reply.Leaves)
		}
		return v
	}
}

func dial(t *testing.T, e replay.Executor, who replay.Identity) teller {
	t.Helper()
	c, err := e.Dial(context.Background(), who)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return teller{t, c}
}

// A real NameNode accepts a node, a file and its block from us, and counts them.
func TestNameNodeTakesANodeAndAFile(t *testing.T) {
	j := jars(t)
	nn, err := hadoop.StartNameNode(t.Context(), j, hadoop.Setting{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer nn.Stop()
	e := executor(t, j, nn)
	node := dial(t, e, replay.Identity{Sender: "datanode-0", Address: "127.0.1.7", Target: "namenode"})
	version := node.call("DatanodeProtocol.versionRequest")
	pool := version("info.blockPoolID")
	me := []string{"registration.datanodeID.ipAddr=127.0.1.7", "registration.datanodeID.hostName=node-0",
		"registration.datanodeID.datanodeUuid=c3a9bd0c-0000-4000-8000-000000000001", "registration.datanodeID.xferPort=9866",
		"registration.datanodeID.infoPort=9864", "registration.datanodeID.ipcPort=9867", "registration.datanodeID.infoSecurePort=0",
		"registration.storageInfo.layoutVersion=4294967239", "registration.storageInfo.namespceID=" + version("info.storageInfo.namespceID"),
		"registration.storageInfo.clusterID=" + version("info.storageInfo.clusterID"), "registration.storageInfo.cTime=" + version("info.storageInfo.cTime"),
		"registration.keys.isBlockTokenEnabled=false", "registration.keys.keyUpdateInterval=0", "registration.keys.tokenLifeTime=0",
		"registration.keys.currentKey.keyId=0", "registration.keys.currentKey.expiryDate=0", "registration.keys.currentKey.keyBytes=",
		"registration.softwareVersion=3.4.2"}
	with := func(more ...string) []string { return append(append([]string{}, me...), more...) }
	if got := node.call("DatanodeProtocol.registerDatanode", me...)("registration.datanodeID.ipAddr"); got != "127.0.1.7" {
		t.Errorf("registered as %s", got)
	}
	beat := node.call("DatanodeProtocol.sendHeartbeat", with("reports[0].storageUuid=DS-1", "reports[0].capacity=270553174016", "reports[0].dfsUsed=0",
		"reports[0].remaining=270553174016", "reports[0].blockPoolUsed=0", "reports[0].storage.storageUuid=DS-1", "reports[0].storage.state=NORMAL",
		"reports[0].storage.storageType=DISK", "xmitsInProgress=0", "xceiverCount=0", "failedVolumes=0", "requestFullBlockReportLease=true")...)
	report := with("blockPoolId="+pool, "reports[0].storage.storageUuid=DS-1", "reports[0].numberOfBlocks=0", "reports[0].blocksBuffers[0]=",
		"context.totalRpcs=1", "context.curRpc=0", "context.id=-7415363162260239351")
	node.call("DatanodeProtocol.blockReport", append(report, "context.leaseId="+beat("fullBlockReportLeaseId"))...)

	client := dial(t, e, replay.Identity{Sender: "client", Target: "namenode"})
	refused := client.try("ClientProtocol.getBlockLocations", "src=/nothing", "offset=0", "length=1")
	if refused.Status != "500" || !strings.HasPrefix(refused.Message, "java.io.FileNotFoundException: ") {
		t.Errorf("a file that is not there: %+v", refused)
	}
	client.call("ClientProtocol.mkdirs", "src=/in", "masked.perm=493", "createParent=true")
	file := client.call("ClientProtocol.create", "src=/in/part-0", "masked.perm=420", "clientName=c", "createFlag=1", "createParent=true",
		"replication=1", "blockSize=1048576")("fs.fileId")
	block := client.call("ClientProtocol.addBlock", "src=/in/part-0", "clientName=c", "fileId="+file)
	last := []string{"src=/in/part-0", "clientName=c", "fileId=" + file, "last.poolId=" + pool, "last.blockId=" + block("block.b.blockId"),
		"last.generationStamp=" + block("block.b.generationStamp"), "last.numBytes=120000"}
	if got := client.call("ClientProtocol.complete", last...)("result"); got != "false" {
		t.Errorf("complete before the node has the block: %s", got)
	}
	node.call("DatanodeProtocol.blockReceivedAndDeleted", with("blockPoolId="+pool, "blocks[0].storageUuid=DS-1", "blocks[0].storage.storageUuid=DS-1",
		"blocks[0].blocks[0].block.blockId="+block("block.b.blockId"), "blocks[0].blocks[0].block.genStamp="+block("block.b.generationStamp"),
		"blocks[0].blocks[0].block.numBytes=120000", "blocks[0].blocks[0].status=RECEIVED")...)
	for range 50 {
		if client.call("ClientProtocol.complete", last...)("result") == "true" {
			break
		}
		time.Sleep(20 * time.Millisecond) // the NameNode processes reports in a separate thread
	}
	metrics, err := nn.Metrics(t.Context(), "Hadoop:service=NameNode,name=FSNamesystemState")
	if err != nil {
		t.Fatal(err)
	}
	if metrics["NumLiveDataNodes"] != 1.0 || metrics["BlocksTotal"] != 1.0 || metrics["FilesTotal"] != 3.0 {
		t.Errorf("the NameNode counts %v nodes, %v blocks, %v files", metrics["NumLiveDataNodes"], metrics["BlocksTotal"], metrics["FilesTotal"])
	}
}
