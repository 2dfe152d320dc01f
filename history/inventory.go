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

// An Inventory is what one or more files say of the servers. Files may
// complete each other; where two rows say different things of a server, the
// second is a mistake, since nobody can tell which is right.
type Inventory struct {
	servers map[cluster.ServerID]*listed
}

// listed is a server and the place that told each of its fields.
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
// but server may be missing, and an empty field says nothing. Memory is in MiB and disk in GB
// (10^9 bytes), as the makers count them. On an error the inventory is to be thrown away.
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

// tell adds what one row says of the server.
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

// amount reads a number of units that is positive and sane.
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
	// Owner is the tenant the samples named, "" when they named none.
	Owner cluster.TenantID
}

// Tenant names the tenant that owns the server: what the inventory says, else
// what the samples said, else the server is a tenant of its own.
func (s Server) Tenant() cluster.TenantID {
	if s.Environment == "" && s.Function == "" && s.Owner != "" {
		return s.Owner
	}
	return s.Server.Tenant()
}

// update takes over all that news says.
func (s *Server) update(news Server) {
	s.Owner = cmp.Or(news.Owner, s.Owner)
	s.Environment = cmp.Or(news.Environment, s.Environment)
	s.Function = cmp.Or(news.Function, s.Function)
	s.Rack = cmp.Or(news.Rack, s.Rack)
	s.CPU = cmp.Or(news.CPU, s.CPU)
	s.Memory = cmp.Or(news.Memory, s.Memory)
	s.Disk = cmp.Or(news.Disk, s.Disk)
}
