package history

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gleaner/cluster"
)

var serverColumns = []column{{"server", true}, {"environment", false}, {"function", false}, {"rack", false},
	{"cores", false}, {"memory_mb", false}, {"disk_gb", false}}

// An Inventory is what one or more files say about servers. Files may complete
// each other; if two rows contradict each other, the second is an error, since
// either may be right.
type Inventory struct {
	servers map[cluster.ServerID]*listed
}

// listed is a server and the place where each of its fields was read.
type listed struct {
	cluster.Server
	told [7]place // by column
}

type place struct {
	file string
	line int
}

// Read adds the servers of a CSV with the header
// server,environment,function,rack,cores,memory_mb,disk_gb, in any order; all
// but server may be missing, and a field may be empty. Memory is in MiB and disk in GB
// (10^9 bytes), as vendors count them. After an error the inventory is not usable.
func (inv *Inventory) Read(name string, r io.Reader) error {
	var servers, words nameSet
	_, err := eachRow(name, r, serverColumns, ReadOptions{}, func(line int, fields [][]byte) error {
		id, err := servers.get("server", fields[0])
		if err != nil {
			return err
		}
		if inv.servers == nil {
			inv.servers = map[cluster.ServerID]*listed{}
		}
		l := inv.servers[cluster.ServerID(id)]
		if l == nil {
			l = &listed{Server: cluster.Server{ID: cluster.ServerID(id)}}
			inv.servers[l.ID] = l
		}
		return l.tell(place{name, line}, fields, &words)
	})
	return err
}

// Servers gives all servers in the order of their names.
func (inv *Inventory) Servers() []cluster.Server {
	var all []cluster.Server
	for _, id := range slices.Sorted(maps.Keys(inv.servers)) {
		all = append(all, inv.servers[id].Server)
	}
	return all
}

// tell adds what one row says about the server.
func (l *listed) tell(at place, fields [][]byte, words *nameSet) error {
	for i, field := range fields {
		field = bytes.TrimSpace(field)
		if i == 0 || len(field) == 0 {
			continue
		}
		was := l.Server
		if err := setField(&l.Server, i, field, words); err != nil {
			return err
		}
		if first := l.told[i]; first != (place{}) && was != l.Server {
			return badf("server %q has %s %s here, but %s at %s:%d", l.ID, serverColumns[i].name,
				fieldOf(&l.Server, i), fieldOf(&was, i), first.file, first.line)
		}
		l.told[i] = at
	}
	return nil
}

func setField(s *cluster.Server, column int, field []byte, words *nameSet) error {
	what := serverColumns[column].name
	switch column {
	case 1, 2, 3:
		word, err := words.get(what, field)
		if err == nil && column < 3 && strings.Contains(word, "/") {
			err = badf("the %s %s has a / in it, which stands between environment and function in a tenant's name", what, show(field))
		}
		*[]*string{1: &s.Environment, 2: &s.Function, 3: &s.Rack}[column] = word
		return err
	case 4:
		n, err := amount(what, field, 1000)
		s.CPU = cluster.MilliCPU(n)
		return err
	case 5:
		n, err := amount(what, field, 1<<20)
		s.Memory = cluster.Bytes(n)
		return err
	}
	n, err := amount(what, field, 1e9)
	s.Disk = cluster.Bytes(n)
	return err
}

func fieldOf(s *cluster.Server, column int) string {
	switch column {
	case 1, 2, 3:
		return fmt.Sprintf("%q", [...]string{1: s.Environment, 2: s.Function, 3: s.Rack}[column])
	case 4:
		return fmt.Sprintf("%g", float64(s.CPU)/1000)
	case 5:
		return fmt.Sprintf("%g", float64(s.Memory)/(1<<20))
	}
	return fmt.Sprintf("%g", float64(s.Disk)/1e9)
}

// amount reads a positive number of units that a server can have.
func amount(what string, field []byte, unit float64) (int64, error) {
	v, ok := float(field)
	switch {
	case !ok:
		return 0, badf("%s %s is not a number", what, show(field))
	case v <= 0:
		return 0, badf("%s %s is not more than zero", what, show(field))
	case v*unit > 1e18:
		return 0, badf("%s %s is more than any server has", what, show(field))
	}
	return max(1, int64(v*unit+0.5)), nil
}

// A Server is a server as the history knows it.
type Server struct {
	cluster.Server
	// Owner is the tenant that the samples name, "" if they name none.
	Owner cluster.TenantID
}

// Tenant gives the tenant that owns the server: by the inventory, else by the
// samples, else the server is a tenant of its own.
func (s Server) Tenant() cluster.TenantID {
	if s.Environment == "" && s.Function == "" && s.Owner != "" {
		return s.Owner
	}
	return s.Server.Tenant()
}

// update overwrites the fields that are set in news.
func (s *Server) update(news Server) {
	s.Owner = cmp.Or(news.Owner, s.Owner)
	s.Environment = cmp.Or(news.Environment, s.Environment)
	s.Function = cmp.Or(news.Function, s.Function)
	s.Rack = cmp.Or(news.Rack, s.Rack)
	s.CPU = cmp.Or(news.CPU, s.CPU)
	s.Memory = cmp.Or(news.Memory, s.Memory)
	s.Disk = cmp.Or(news.Disk, s.Disk)
}
