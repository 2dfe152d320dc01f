package main

import (
	"context"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A job is an iterative computation over parts of an input, one part a node: a
// master splits the input, hands out a task to every node, waits for all
// results and begins again. Everything they tell each other goes through etcd.
type job struct {
	endpoint   string
	nodes      int
	iterations int
	compute    time.Duration
}

// Where things are kept.
const (
	stateKey = "/job/state"
	roundKey = "/job/round" // for whoever looks
)

func nodeName(i int) string                { return fmt.Sprintf("node-%05d", i) }
func memberKey(i int) string               { return "/nodes/" + nodeName(i) }
func statusKey(i int) string               { return "/status/" + nodeName(i) }
func taskKey(i int) string                 { return "/tasks/" + nodeName(i) }
func inputKey(i int) string                { return fmt.Sprintf("/input/part-%05d", i) }
func resultKey(round string, i int) string { return fmt.Sprintf("/results/%s/part-%05d", round, i) }

// Times of the protocol. The client renews a lease at the first half second
// after a third of its life: every 2 s.
const (
	leaseSeconds = 5
	statusEvery  = 1500 * time.Millisecond
	pollEvery    = 100 * time.Millisecond
	mergePair    = 250 * time.Millisecond
	packUp       = 300 * time.Millisecond
)

// run runs the job to its end. The first failure ends it.
func (j *job) run(ctx context.Context) error {
	probe, err := net.DialTimeout("tcp", j.endpoint, 5*time.Second) // the client itself would wait for ever
	if err != nil {
		return err
	}
	probe.Close()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return j.as(ctx, "master", j.master) })
	for i := range j.nodes {
		all.Go(func() error {
			return j.as(ctx, nodeName(i), func(ctx context.Context, c *clientv3.Client) error { return (&node{job: j, rank: i, etcd: c}).run(ctx) })
		})
	}
	return all.Wait()
}

// as runs one participant: a client and a connection of its own, which says
// its name in the metadata of every call.
func (j *job) as(ctx context.Context, name string, body func(context.Context, *clientv3.Client) error) error {
	sign := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "node-name", name)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{j.endpoint},
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return next(sign(ctx), method, req, reply, cc, opts...)
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return next(sign(ctx), desc, cc, method, opts...)
			}),
		},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer c.Close()
	if err := body(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
