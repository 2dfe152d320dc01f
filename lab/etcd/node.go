package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A node registers, keeps its lease alive, tells its status and does the tasks
// it is given until the job is done.
type node struct {
	*job
	rank  int
	etcd  *clientv3.Client
	lease clientv3.LeaseID
}

func (n *node) run(ctx context.Context) error {
	granted, err := n.etcd.Grant(ctx, leaseSeconds)
	if err != nil {
		return err
	}
	n.lease = granted.ID
	tasks := n.etcd.Watch(ctx, taskKey(n.rank), clientv3.WithFilterDelete())
	state := n.etcd.Watch(ctx, stateKey)
	if _, err := n.etcd.Put(ctx, memberKey(n.rank), nodeName(n.rank), clientv3.WithLease(n.lease)); err != nil {
		return err
	}
	stop, err := n.stayAlive(ctx)
	if err != nil {
		return err
	}
	err = n.serve(ctx, tasks, state)
	stop()
	if err != nil {
		return err
	}
	_, err = n.etcd.Revoke(ctx, n.lease)
	return err
}

// stayAlive renews the lease and tells the node's status until it is stopped.
func (n *node) stayAlive(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	renewed, err := n.etcd.KeepAlive(ctx, n.lease)
	if err != nil {
		cancel()
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for range renewed { // the channel is to be drained
		}
	})
	running.Go(func() {
		tick := time.NewTicker(statusEvery)
		defer tick.Stop()
		for at := time.Now(); ctx.Err() == nil; {
			// A status that cannot be told is late, no more: the lease decides who is alive.
			_, _ = n.etcd.Put(ctx, statusKey(n.rank), at.UTC().Format(time.RFC3339Nano), clientv3.WithLease(n.lease))
			select {
			case <-ctx.Done():
			case at = <-tick.C:
			}
		}
	})
	return func() { cancel(); running.Wait() }, nil
}

// serve does task after task until the job is done.
func (n *node) serve(ctx context.Context, tasks, state clientv3.WatchChan) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case said := <-tasks:
			if err := said.Err(); err != nil {
				return err
			}
			for _, e := range said.Events {
				if err := n.do(ctx, string(e.Kv.Value), e.Kv.ModRevision); err != nil {
					return err
				}
			}
		case said := <-state:
			if err := said.Err(); err != nil {
				return err
			}
			return sleep(ctx, packUp)
		}
	}
}

// do computes one part of a round. The result takes the place of the task in
// one transaction, unless the task was taken back or given again.
func (n *node) do(ctx context.Context, round string, revision int64) error {
	part, err := n.etcd.Get(ctx, inputKey(n.rank))
	if err != nil {
		return err
	}
	if len(part.Kvs) == 0 {
		return fmt.Errorf("%s is not there", inputKey(n.rank))
	}
	if err := sleep(ctx, n.compute); err != nil {
		return err
	}
	result := fmt.Sprintf("%d letters", len(part.Kvs[0].Value))
	task := taskKey(n.rank)
	done, err := n.etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(task), "=", revision)).
		Then(clientv3.OpPut(resultKey(round, n.rank), result), clientv3.OpDelete(task)).
		Commit()
	if err != nil {
		return err
	}
	if !done.Succeeded {
		return fmt.Errorf("the task of %s was changed under way", round)
	}
	return nil
}
