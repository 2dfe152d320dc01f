package main

import (
	"context"
	"fmt"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// master splits, hands out, waits and collects.
func (j *job) master(ctx context.Context, c *clientv3.Client) error {
	for i := range j.nodes {
		if _, err := await(ctx, c, memberKey(i)); err != nil {
			return err
		}
	}
	lost := c.Watch(ctx, "/nodes/", clientv3.WithPrefix(), clientv3.WithFilterPut())
	for i := range j.nodes {
		if _, err := c.Put(ctx, inputKey(i), "a line of the input"); err != nil {
			return err
		}
	}
	for k := range j.iterations {
		if err := j.iterate(ctx, c, fmt.Sprintf("round-%d", k)); err != nil {
			return err
		}
	}
	select {
	case gone := <-lost:
		return fmt.Errorf("lost %s", gone.Events[0].Kv.Key)
	default:
	}
	for _, prefix := range []string{"/results/", "/input/"} {
		if _, err := c.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
			return err
		}
	}
	_, err := c.Put(ctx, stateKey, "done")
	return err
}

// iterate gives every node a task and collects every node's result.
func (j *job) iterate(ctx context.Context, c *clientv3.Client, round string) error {
	if err := sleep(ctx, j.prepare()); err != nil {
		return err
	}
	if _, err := c.Put(ctx, roundKey, round); err != nil {
		return err
	}
	for i := range j.nodes {
		if _, err := c.Put(ctx, taskKey(i), round); err != nil {
			return err
		}
	}
	for i := range j.nodes {
		if _, err := await(ctx, c, resultKey(round, i)); err != nil {
			return err
		}
	}
	return nil
}

// prepare is how long the master takes before a round: it merges what
// the nodes said, two at a time.
func (j *job) prepare() time.Duration {
	return time.Duration(float64(mergePair) * math.Log2(float64(j.nodes)))
}

// await asks for a key until it is there.
func await(ctx context.Context, c *clientv3.Client, key string) ([]byte, error) {
	for {
		got, err := c.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if got.Count > 0 {
			return got.Kvs[0].Value, nil
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
