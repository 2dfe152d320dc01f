// Command etcdlab is a real etcd server, and a job that uses one.
//
//	etcdlab [FLAG...]      etcd itself, with etcd's own flags
//	etcdlab descriptors    print what its messages are, as a descriptor set
//	etcdlab work           run a job of many nodes on it; see --help
//
// It is a module of its own so that whoever does not experiment with etcd does
// not build it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) < 2 {
		etcdmain.Main(os.Args)
		return
	}
	var err error
	switch os.Args[1] {
	case "descriptors":
		err = writeDescriptors(os.Stdout)
	case "work":
		err = work(os.Args[2:])
	default:
		etcdmain.Main(os.Args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcdlab: "+err.Error())
		os.Exit(1)
	}
}

func work(args []string) error {
	flags := flag.NewFlagSet("etcdlab work", flag.ExitOnError)
	var j job
	flags.StringVar(&j.endpoint, "endpoint", "127.0.0.1:2379", "where etcd listens")
	flags.IntVar(&j.nodes, "nodes", 3, "how many nodes work")
	flags.IntVar(&j.iterations, "iterations", 3, "how often the master splits and collects")
	flags.DurationVar(&j.compute, "compute", time.Second, "how long a node computes in an iteration")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return j.run(ctx)
}
