import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import javax.net.SocketFactory;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.TestDFSIO;
import org.apache.hadoop.examples.terasort.TeraGen;
import org.apache.hadoop.examples.terasort.TeraSort;
import org.apache.hadoop.examples.terasort.TeraValidate;
import org.apache.hadoop.hdfs.NNBench;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.ipc.ProtobufRpcEngine2;
import org.apache.hadoop.mapred.LocalJobRunner;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.BasicConfigurator;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.PatternLayout;
import org.apache.log4j.spi.LoggingEvent;

/**
 * Runs a program of Hadoop on a NameNode and n DataNodes, all in this process, and writes the
 * log that Hadoop's RPC client has at TRACE: a folder for each scale, a file for each node.
 *
 * Record PROGRAM PORT FOLDER SCALE...
 */
public class Record {
  interface Program {
    void run(Configuration conf, int n) throws Exception;
  }

  static final Map<String, Program> PROGRAMS = Map.of("dfsio", Record::dfsio, "nnbench", Record::nnbench, "terasort", Record::terasort);

  public static void main(String[] args) throws Exception {
    Program program = PROGRAMS.get(args[0]);
    int port = Integer.parseInt(args[1]);
    Path folder = Path.of(args[2]).toAbsolutePath();
    BasicConfigurator.configure();
    Logger.getRootLogger().setLevel(Level.ERROR);
    DefaultMetricsSystem.setMiniClusterMode(true);
    int code = 1;
    try {
      for (int i = 3; i < args.length; i++) {
        int n = Integer.parseInt(args[i]);
        record(program, port, folder.resolve(String.format("n%03d", n)), n);
      }
      code = 0;
    } catch (Exception e) {
      e.printStackTrace();
    } finally {
      System.exit(code); // threads of Hadoop's are left
    }
  }

  static void record(Program program, int port, Path traces, int n) throws Exception {
    Path data = Files.createTempDirectory(traces.getParent().getParent(), "data");
    Logger log = Logger.getLogger(ProtobufRpcEngine2.class);
    Calls calls = new Calls(Files.createDirectories(traces));
    Field jobs = LocalJobRunner.class.getDeclaredField("jobid"); // as in a new process
    jobs.setAccessible(true);
    jobs.setInt(null, 0);
    Configuration conf = common(port, data);
    NameNode.format(conf);
    NameNode master = NameNode.createNameNode(new String[0], new Configuration(conf));
    log.setLevel(Level.TRACE);
    log.setAdditivity(false);
    log.addAppender(calls);
    List<DataNode> nodes = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      Configuration own = dataNode(conf, data, port, i);
      nodes.add(as("datanode-" + i, () -> DataNode.createDataNode(new String[0], own)));
    }
    for (DataNode node : nodes) {
      while (!node.isDatanodeFullyStarted() || master.getNamesystem().getNumLiveDataNodes() < n) {
        Thread.sleep(50);
      }
    }
    Thread.sleep(1000); // until each has sent its first report of blocks
    UserGroupInformation user = UserGroupInformation.createRemoteUser("hadoop");
    as("client", () -> user.doAs((PrivilegedExceptionAction<Void>) () -> {
      Configuration own = client(conf, data);
      // The answer is kept for all threads; if the first of them asked, so would all that come before it has the answer.
      FileSystem.get(own).getServerDefaults(new org.apache.hadoop.fs.Path("/"));
      program.run(own, n);
      FileSystem.closeAllForUGI(user);
      return null;
    }));
    Thread.sleep(4000); // one beat more
    log.removeAppender(calls);
    calls.close();
    System.out.println(n + " nodes: " + master.getNamesystem().getFilesTotal() + " files and folders, " + master.getNamesystem().getBlocksTotal() + " blocks");
    for (DataNode node : nodes) {
      node.shutdown();
    }
    master.stop();
    master.join();
    FileUtil.fullyDelete(data.toFile());
  }

  /** TestDFSIO writes a file of three blocks for each node and reads them. */
  static void dfsio(Configuration conf, int n) throws Exception {
    String files = Integer.toString(n);
    run(conf, new TestDFSIO(), "-write", "-nrFiles", files, "-size", "2500KB", "-bufferSize", "4096", "-resFile", conf.get("hadoop.tmp.dir") + "/result");
    run(conf, new TestDFSIO(), "-read", "-nrFiles", files, "-size", "2500KB", "-bufferSize", "4096", "-resFile", conf.get("hadoop.tmp.dir") + "/result");
  }

  /** NNBench creates, reads and renames small files, two for each node. */
  static void nnbench(Configuration conf, int n) throws Exception {
    for (String operation : new String[] {"create_write", "open_read", "rename"}) {
      run(conf, new NNBench(), "-operation", operation, "-maps", Integer.toString(n), "-reduces", "1", "-startTime", Long.toString(System.currentTimeMillis() / 1000),
          "-blockSize", "1048576", "-bytesToWrite", "1000", "-bytesPerChecksum", "512", "-numberOfFiles", "2", "-replicationFactorPerFile", "2", "-baseDir", "/benchmarks/NNBench");
    }
  }

  /** TeraGen once for each node, TeraSort of all of it with a reduce for each, TeraValidate. */
  static void terasort(Configuration conf, int n) throws Exception {
    conf.setInt("mapreduce.job.reduces", n);
    conf.setInt("mapreduce.terasort.num.partitions", 2); // that are sampled
    for (int i = 0; i < n; i++) {
      run(conf, new TeraGen(), "500", "/terasort/in/" + i); // 50,000 bytes
    }
    run(conf, new TeraSort(), "/terasort/in/*", "/terasort/out");
    run(conf, new TeraValidate(), "/terasort/out", "/terasort/report");
  }

  static void run(Configuration conf, Tool tool, String... args) throws Exception {
    int code = ToolRunner.run(new Configuration(conf), tool, args);
    if (code != 0) {
      throw new IOException(tool.getClass().getSimpleName() + " ended with " + code);
    }
  }

  static Configuration common(int port, Path data) {
    Configuration conf = new Configuration();
    conf.setClassLoader(Record.class.getClassLoader());
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:" + port);
    conf.set("hadoop.tmp.dir", data.resolve("master").toString());
    conf.set("dfs.namenode.http-address", "127.0.0.1:0");
    conf.set("dfs.namenode.datanode.registration.ip-hostname-check", "false");
    conf.set("dfs.permissions.enabled", "false");
    conf.set("dfs.heartbeat.interval", "1"); // so that a short run has several
    conf.set("dfs.namenode.redundancy.considerLoad", "false"); // or some blocks have fewer nodes
    conf.set("dfs.blocksize", "1048576");
    return conf;
  }

  static Configuration dataNode(Configuration conf, Path data, int port, int i) {
    Configuration own = new Configuration(conf);
    String address = Node.address("datanode-" + i);
    own.set("hadoop.tmp.dir", data.resolve("datanode-" + i).toString());
    own.set("dfs.datanode.hostname", address);
    own.set("dfs.datanode.address", address + ":" + (port + 1));
    own.set("dfs.datanode.http.address", address + ":" + (port + 2));
    own.set("dfs.datanode.ipc.address", address + ":" + (port + 3));
    own.set("dfs.datanode.handler.count", "2");
    own.set("hadoop.rpc.socket.factory.class.default", From.class.getName());
    own.set("record.from", address);
    return own;
  }

  static Configuration client(Configuration conf, Path data) {
    Configuration own = new Configuration(conf);
    own.set("hadoop.tmp.dir", data.resolve("client").toString());
    own.set("mapreduce.framework.name", "local");
    own.set("mapreduce.task.io.sort.mb", "8");
    own.set("mapreduce.client.progressmonitor.pollinterval", "50");
    own.set("mapreduce.client.completion.pollinterval", "50");
    own.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "20");
    return own;
  }

  /** as runs code whose threads, and theirs, are those of one node. */
  static <T> T as(String node, Callable<T> code) throws Exception {
    FutureTask<T> task = new FutureTask<>(code);
    Thread thread = new Thread(new Node(node), task, node);
    thread.setContextClassLoader(Record.class.getClassLoader());
    thread.start();
    return task.get();
  }

  /** The threads of a node. */
  static class Node extends ThreadGroup {
    Node(String name) {
      super(name);
    }

    /** The address it calls from. */
    static String address(String node) {
      return node.startsWith("datanode-") ? "127.0.1." + (1 + Integer.parseInt(node.substring("datanode-".length()))) : "127.0.0.1";
    }

    static String current() {
      ThreadGroup g = Thread.currentThread().getThreadGroup();
      while (g != null && !(g instanceof Node)) {
        g = g.getParent();
      }
      return g == null ? "master" : g.getName();
    }
  }

  /** Connects from the address of a node. */
  public static class From extends SocketFactory implements org.apache.hadoop.conf.Configurable {
    private Configuration conf;

    @Override
    public Socket createSocket() throws IOException {
      Socket s = java.nio.channels.SocketChannel.open().socket();
      s.bind(new InetSocketAddress(conf.get("record.from"), 0));
      return s;
    }

    @Override
    public Socket createSocket(String host, int port) throws IOException {
      return createSocket(InetAddress.getByName(host), port);
    }

    @Override
    public Socket createSocket(InetAddress host, int port) throws IOException {
      Socket s = createSocket();
      s.connect(new InetSocketAddress(host, port));
      return s;
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress from, int fromPort) throws IOException {
      return createSocket(host, port);
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort) throws IOException {
      return createSocket(host, port);
    }

    @Override
    public void setConf(Configuration conf) {
      this.conf = conf;
    }

    @Override
    public Configuration getConf() {
      return conf;
    }
  }

  /** Writes each line to the file of the node whose thread logs it. */
  static class Calls extends AppenderSkeleton {
    private final PatternLayout time = new PatternLayout("%d{ISO8601} ");
    private final Path folder;
    private final Map<String, BufferedWriter> files = new HashMap<>();

    Calls(Path folder) {
      this.folder = folder;
      setLayout(new PatternLayout("%p %c: %m%n"));
    }

    @Override
    protected synchronized void append(LoggingEvent event) {
      try {
        String node = Node.current();
        BufferedWriter file = files.get(node);
        if (file == null) {
          file = Files.newBufferedWriter(folder.resolve(node + ".log"));
          files.put(node, file);
        }
        file.write(time.format(event) + "from=" + Node.address(node) + " " + getLayout().format(event));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public synchronized void close() {
      try {
        for (BufferedWriter file : files.values()) {
          file.close();
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public boolean requiresLayout() {
      return true;
    }
  }
}
