package hadoop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Pair is two NameNodes with one namespace, of which one serves; the other tells its clients
// that it stands by.
type Pair struct{ Active, Standby *Master }

// ErrOther is the error of starting one NameNode in the folder of a pair, or a pair in that of one.
var ErrOther = errors.New("hadoop: the folder has another namespace")

// StartNameNodes starts a pair, whose edits are in a folder that both read, and has the first serve.
func StartNameNodes(ctx context.Context, jars Jars, s Setting) (_ *Pair, err error) {
	if _, err := os.Stat(filepath.Join(s.Data, namespace)); err == nil {
		return nil, fmt.Errorf("%w: %s is that of a NameNode without another", ErrOther, s.Data)
	}
	ports, err := freePorts(s.Port, 2, s.Web)
	if err != nil {
		return nil, err
	}
	more, err := freePorts(0, 1, 0)
	if err != nil {
		return nil, err
	}
	web := []int{ports[2], more[0]}
	pair := &Pair{}
	defer func() {
		if err != nil {
			pair.Stop()
		}
	}()
	for i, name := range names {
		one := s
		one.Data, one.Port, one.Web = filepath.Join(s.Data, name), ports[i], web[i]
		one.More = map[string]string{"fs.defaultFS": "hdfs://lab", "dfs.nameservices": "lab", "dfs.ha.namenodes.lab": names[0] + "," + names[1], "dfs.ha.namenode.id": name,
			"dfs.namenode.shared.edits.dir": "file://" + filepath.Join(s.Data, "shared")}
		for k, other := range names {
			one.More["dfs.namenode.rpc-address.lab."+other] = local(ports[k])
			one.More["dfs.namenode.http-address.lab."+other] = local(web[k])
		}
		m, err := StartNameNode(ctx, jars, one)
		if err != nil {
			return nil, err
		}
		if i == 1 {
			pair.Standby = m
			break
		}
		pair.Active = m
		if err := share(one.Data, filepath.Join(s.Data, names[1])); err != nil {
			return nil, err
		}
	}
	return pair, pair.Active.serve(ctx, names[0])
}

// names are those of a pair's NameNodes.
var names = []string{"one", "two"}

// namespace is where a NameNode has its own, in its folder.
const namespace = "dfs/name"

// share gives the second NameNode the namespace of the first, unless it has it.
func share(from, to string) error {
	from, to = filepath.Join(from, namespace), filepath.Join(to, namespace)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	part := to + ".part" // of a copy that was cut off there is nothing to be kept
	err := os.RemoveAll(part)
	if err == nil {
		err = os.CopyFS(part, os.DirFS(from))
	}
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		return fmt.Errorf("hadoop: %w", err)
	}
	return nil
}

// serve has a NameNode serve, whatever the other does.
func (m *Master) serve(ctx context.Context, name string) error {
	out, err := m.java(ctx, "org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-transitionToActive", "--forceactive", name).CombinedOutput()
	if err != nil {
		said := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("hadoop: have the NameNode %s serve: %w: %s", name, err, said[len(said)-1])
	}
	return nil
}

// TakeOver waits until the first has ended, and has the second serve.
func (p *Pair) TakeOver(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.Active.ended:
	}
	select {
	case <-p.Standby.ended:
		return fmt.Errorf("hadoop: the NameNode on %s has ended, and the one that stood by for it before", p.Active.Address)
	default:
		return p.Standby.serve(ctx, names[1])
	}
}

// Stop ends both.
func (p *Pair) Stop() {
	for _, m := range []*Master{p.Active, p.Standby} {
		if m != nil {
			m.Stop()
		}
	}
}
