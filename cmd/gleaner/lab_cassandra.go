package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gleaner/input"
	kvcassandra "gleaner/kv/cassandra"
	"gleaner/lab/cassandra"
	"gleaner/lab/maven"
)

func newLabCassandra() *cobra.Command {
	var s cassandra.Setting
	var listen, keyspace string
	cmd := &cobra.Command{
		Use:   "cassandra",
		Short: "Start a real Cassandra cluster and keep it running until Ctrl-C",
		Long: `Start Apache Cassandra ` + cassandra.Version + ` on loopback addresses, one node on each, and print the address
of a store on it when all nodes serve. A folder that holds a cluster already is started as it was left.

Its jars are fetched once by Maven (96 MB) into the user's cache folder. Java and Maven
must be installed; on Debian: apt-get install openjdk-17-jre-headless maven`,
		Example: `  gleaner lab cassandra --data cassandra
  gleaner lab cassandra --data one --nodes 1 --listen 127.0.5.1:9042
  gleaner store copy ~/.local/share/gleaner 'cassandra://127.0.0.1/gleaner?replicas=3'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			first, err := netip.ParseAddrPort(listen)
			switch {
			case err != nil || !first.Addr().IsLoopback() || !first.Addr().Is4() || first.Port() == 0:
				return input.Errorf("--listen", "%q is not a loopback address with a port, as 127.0.0.1:9042", listen)
			case s.Nodes < 1 || s.Nodes > 9:
				return input.Errorf("--nodes", "%d is not from 1 to 9", s.Nodes)
			case !heapSize.MatchString(s.Heap):
				return input.Errorf("--heap", "%q is not a size like 512m or 2g", s.Heap)
			}
			s.First = first
			if _, err := kvcassandra.Parse(kvcassandra.Scheme + listen + "/" + keyspace); err != nil {
				return input.Errorf("--keyspace", "%q: use up to 48 of a-z, 0-9 and _, a letter first, not system", keyspace)
			}
			return runLabCassandra(cmd, s, keyspace)
		},
	}
	cmd.Flags().StringVar(&s.Data, "data", "lab-cassandra", "the folder for all it writes")
	cmd.Flags().IntVar(&s.Nodes, "nodes", 3, "how many nodes, each on the next address")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9042", "where clients reach the first node")
	cmd.Flags().StringVar(&s.Heap, "heap", "512m", "memory of each node's Java machine")
	cmd.Flags().StringVar(&keyspace, "keyspace", "gleaner", "the keyspace in the address that is printed")
	return cmd
}

func runLabCassandra(cmd *cobra.Command, s cassandra.Setting, keyspace string) error {
	data, err := filepath.Abs(s.Data)
	if err != nil {
		return input.Errorf("--data", "%v", err)
	}
	s.Data = data
	if _, err := os.Stat(kvDir(data)); err == nil {
		return input.Errorf("--data", "%s is a data directory of gleaner; name another folder", s.Data)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return input.Errorf("--data", "%v", err)
	}
	lib, err := cassandraJars(cmd)
	if err != nil {
		return err
	}
	c, err := cassandra.Start(cmd.Context(), lib, s)
	if err != nil {
		return startError(err)
	}
	defer c.Stop()
	if err := tellCassandra(cmd, c, s, keyspace); err != nil {
		return err
	}
	return c.Wait(cmd.Context())
}

func tellCassandra(cmd *cobra.Command, c *cassandra.Cluster, s cassandra.Setting, keyspace string) error {
	if !wantJSON(cmd) {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", c.Store(keyspace))
		return err
	}
	logs := []string{}
	for _, n := range c.Nodes {
		logs = append(logs, n.Log())
	}
	return printJSON(cmd, map[string]any{"store": c.Store(keyspace), "nodes": s.Nodes, "data": s.Data, "logs": logs, "pid": os.Getpid()})
}

// cassandraJars finds the jars, or fetches them and shows how far it is.
func cassandraJars(cmd *cobra.Command) (string, error) {
	cache, err := maven.Cache()
	if err != nil {
		return "", err
	}
	bar := newProgress(cmd, "fetching jars", cassandra.Jars)
	defer bar.finish()
	return cassandra.Fetch(cmd.Context(), cache, func(jars int) {
		if jars == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "fetching Cassandra %s into %s (once, a few minutes)\n", cassandra.Version, cache)
		}
		bar.set(jars, max(jars, cassandra.Jars))
	})
}
