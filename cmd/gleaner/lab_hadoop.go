package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"gleaner/input"
	"gleaner/lab/hadoop"
	"gleaner/lab/maven"
	"gleaner/trace/replay"
	"gleaner/trace/replay/hadooprpc"
)

// startHadoop is hadoop.StartNameNode or hadoop.StartResourceManager.
type startHadoop func(context.Context, hadoop.Jars, hadoop.Setting) (*hadoop.Master, error)

func newLabNameNode() *cobra.Command {
	var standby bool
	cmd := newLabHadoop(hadoop.StartNameNode, "namenode", 8020, 1, &standby, `Start an HDFS NameNode of Hadoop `+hadoop.Version+`, formatted if its folder is new. It takes
blocks and files from anyone on this machine. With --standby a second one, on the
next port, takes its place when its process ends.`)
	cmd.Flags().BoolVar(&standby, "standby", false, "start a second one, which serves once the first has ended")
	return cmd
}

func newLabResourceManager() *cobra.Command {
	return newLabHadoop(hadoop.StartResourceManager, "resourcemanager", 8030, 4, new(bool), `Start a YARN Resource Manager of Hadoop `+hadoop.Version+`. It has four ports in a row:
application masters, nodes, clients, administration.`)
}

// newLabHadoop is the command for a master with consecutive ports, or for a pair of them.
func newLabHadoop(start startHadoop, name string, port, ports int, standby *bool, long string) *cobra.Command {
	var s hadoop.Setting
	cmd := &cobra.Command{
		Use:   name,
		Short: "Start a " + name + " and keep it running until Ctrl-C",
		Long: long + `

Its jars are fetched once by Maven (84 MB) into the user's cache folder, and a
descriptor set of all they speak is written beside them. Java and Maven must be
installed; on Debian: apt-get install openjdk-17-jre-headless maven`,
		Example: fmt.Sprintf("  gleaner lab %s --data /tmp/%s --port 0", name, name),
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			needed := ports
			if *standby {
				needed++
			}
			if err := freePorts("--port", s.Port, needed); err != nil {
				return err
			}
			if err := freePorts("--web-port", s.Web, 1); err != nil {
				return err
			}
			if !heapSize.MatchString(s.Heap) {
				return input.Errorf("--heap", "%q is not a size like 512m or 2g", s.Heap)
			}
			return runLabHadoop(cmd, start, s, *standby)
		},
	}
	cmd.Flags().StringVar(&s.Data, "data", "lab-"+name, "the folder for all it writes")
	cmd.Flags().IntVar(&s.Port, "port", port, "its first port; 0 for a free one")
	cmd.Flags().IntVar(&s.Web, "web-port", 0, "the port of its web page and metrics; 0 for a free one")
	cmd.Flags().StringVar(&s.Heap, "heap", "512m", "memory of its Java machine")
	return cmd
}

// freePorts reports ports that cannot be listened on.
func freePorts(flag string, first, n int) error {
	switch {
	case first == 0:
		return nil // any
	case first < 0 || first > 65535:
		return input.Errorf(flag, "%d is not a port", first)
	case first+n-1 > 65535:
		return input.Errorf(flag, "it takes %d ports in a row, and from %d on there are only %d", n, first, 65536-first)
	}
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return input.Errorf(flag, "%v", err)
		}
		l.Close()
	}
	return nil
}

var heapSize = regexp.MustCompile(`^[1-9][0-9]*[mgMG]$`)

func runLabHadoop(cmd *cobra.Command, start startHadoop, s hadoop.Setting, standby bool) error {
	data, err := filepath.Abs(s.Data)
	if err != nil {
		return input.Errorf("--data", "%v", err)
	}
	s.Data = data
	if err := os.MkdirAll(data, 0o755); err != nil {
		return input.Errorf("--data", "%v", err)
	}
	jars, err := hadoopJars(cmd)
	if err != nil {
		return err
	}
	pair := &hadoop.Pair{}
	if standby {
		pair, err = hadoop.StartNameNodes(cmd.Context(), jars, s)
	} else {
		pair.Active, err = start(cmd.Context(), jars, s)
	}
	if errors.Is(err, hadoop.ErrOther) {
		return input.Errorf("--data", "%v", err)
	}
	if err != nil {
		return err
	}
	master := pair.Active
	out := map[string]any{"name": master.Name, "address": master.Address, "web": master.Web, "data": s.Data, "log": master.Log,
		"descriptors": jars.Descriptors, "pid": master.PID()}
	t := newTable("", "")
	t.row("address", master.Address)
	t.row("web page", master.Web)
	stop := fmt.Sprintf("Ctrl-C, or kill %d", master.PID())
	if standby {
		out["standby"] = map[string]any{"address": pair.Standby.Address, "web": pair.Standby.Web, "log": pair.Standby.Log, "pid": pair.Standby.PID()}
		t.row("standby", pair.Standby.Address)
		t.row("its page", pair.Standby.Web)
		stop = fmt.Sprintf("Ctrl-C; kill -9 %d has the other serve", master.PID())
	}
	t.row("data", s.Data)
	t.row("log", master.Log)
	t.row("descriptors", jars.Descriptors)
	t.row("to stop", stop)
	if wantJSON(cmd) {
		err = printJSON(cmd, out)
	} else {
		err = t.print(cmd.OutOrStdout())
	}
	if standby {
		defer pair.Stop()
		go func() {
			_ = pair.Standby.Wait()
			if cmd.Context().Err() == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "the %s on %s has ended\n", master.Name, pair.Standby.Address)
			}
		}()
		failed := pair.TakeOver(cmd.Context())
		if cmd.Context().Err() != nil {
			return err // stopped by the user
		}
		if failed != nil {
			return errors.Join(err, failed)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "the %s on %s has ended: that on %s serves\n", master.Name, master.Address, pair.Standby.Address)
		master = pair.Standby
	}
	ended := master.Wait()
	if cmd.Context().Err() != nil || ended == nil {
		return err // stopped by the user
	}
	return errors.Join(err, fmt.Errorf("the %s ended by itself: %w; see %s", master.Name, ended, master.Log))
}

// hadoopJars finds the jars, or fetches them and shows how far it is.
func hadoopJars(cmd *cobra.Command) (hadoop.Jars, error) {
	cache, err := maven.Cache()
	if err != nil {
		return hadoop.Jars{}, err
	}
	bar := newProgress(cmd, "fetching jars", hadoop.Fetched)
	defer bar.finish()
	return hadoop.Fetch(cmd.Context(), cache, func(jars int) {
		if jars == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "fetching Hadoop %s into %s (once, a few minutes)\n", hadoop.Version, cache)
		}
		bar.set(jars, max(jars, hadoop.Fetched))
	})
}

// openHadoop connects to a master of Hadoop, with the descriptors of the jars in the
// cache unless others are named.
func openHadoop(ctx context.Context, at *url.URL) (replay.Executor, error) {
	if q := at.Query(); q.Get("descriptors") == "" {
		cache, err := maven.Cache()
		if err != nil {
			return nil, err
		}
		jars, err := hadoop.Fetch(ctx, cache, nil)
		if err != nil {
			return nil, err
		}
		q.Set("descriptors", jars.Descriptors)
		at.RawQuery = q.Encode()
	}
	return hadooprpc.Open(ctx, at)
}
