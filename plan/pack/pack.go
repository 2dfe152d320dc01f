// Package pack chooses servers and fills them at least cost, and proves it.
//
// It is the integer program of the cluster compiler (FAST'12 §4.4, Figure 4)
// in one general form. Items (storage units of datasets, instances of tasks)
// demand resources: slots and bandwidth of buses, network in and out, cores,
// memory. A server of a type has a fixed capacity of each, and a Purchase
// changes it in whole units per server: a CPU gives cores and takes a socket,
// a DIMM gives memory and takes a slot, a disk shared by the partitions of
// local data gives its share and takes a slot and bus bandwidth. What a server
// must have once, such as the memory of a storage system's own process, is a
// purchase that gives plenty of a resource that the items it serves demand one
// of each.
//
// A filling is a server type with whole numbers of items and purchases such
// that no resource is demanded beyond what there is. Solve covers all items by
// fillings, by branch and price; doc.go says how.
package pack

import (
	"fmt"
	"math"
)

// A Problem says what is to be hosted and what it may be hosted on.
// All vectors have one entry a resource, in the order of Resources.
type Problem struct {
	Resources []string
	Servers   []Server
	Purchases []Purchase
	Items     []Item
}

// A Server is a type of server; any number of them may be used.
type Server struct {
	Name     string
	Cost     float64   // of the bare server
	Capacity []float64 // of the bare server; negative is an overhead that must be bought first
}

// A Purchase is what may be put into a server, in whole units.
type Purchase struct {
	Name   string
	Cost   float64   // of one unit
	Change []float64 // what one unit adds to the capacity; negative is what it takes
}

// An Item is something to be hosted, Count times.
type Item struct {
	Name   string
	Count  int
	Cost   float64   // of one, wherever it is hosted
	Demand []float64 // of one; never negative
	Group  string    // items of different groups never share a server; those of "" share with any
}

// Options bound the work. The zero value asks for a proven optimum.
type Options struct {
	Gap       float64     // stop when (Cost-LowerBound)/Cost is at most this
	NodeLimit int         // nodes of the search tree; 0 is DefaultNodes
	Interrupt func() bool // polled often; the best solution so far is returned once it says true
}

// DefaultNodes is the limit of the search tree when Options give none.
const DefaultNodes = 2000

// A Solution hosts every item. It is the cheapest when Optimal, and at most
// Gap dearer than the cheapest in any case.
type Solution struct {
	Fillings   []Filling
	Cost       float64
	LowerBound float64 // no solution costs less: proven
	Gap        float64 // (Cost - LowerBound) / Cost
	Optimal    bool    // the gap is nil: proven
	Nodes      int     // of the search tree
	Columns    int     // fillings looked at by the master program
}

// A Filling is one server and what is in it, Count times.
type Filling struct {
	Server     string
	Count      int
	Items      []int     // how many of each item of the problem, in its order
	Bought     []int     // how many of each purchase of the problem, in its order
	Cost       float64   // of one such server with its purchases and items
	Used       []float64 // demand of the items, by resource
	Capacity   []float64 // what there is for them, by resource: the server's and what purchases change
	Bottleneck string    // the resource that is used to the largest part
}

// An UnfitError says that an item fits no server even alone.
type UnfitError struct {
	Item     string
	Server   string  // the type of server that comes closest
	Resource string  // what is short there
	Need     float64 // how much of it the item takes, purchases included
	Have     float64 // how much of it that server can have
}

func (e *UnfitError) Error() string {
	return fmt.Sprintf("pack: %s fits no server: it needs %.6g of %s, and %s, which comes closest, has %.6g: short by %.6g",
		e.Item, e.Need, e.Resource, e.Server, e.Have, e.Need-e.Have)
}

// Servers counts the servers of the solution.
func (s Solution) Servers() int {
	n := 0
	for _, f := range s.Fillings {
		n += f.Count
	}
	return n
}

// check says what is wrong with a problem that no plan should ever pose.
func (p *Problem) check() error {
	row := func(kind, name string, cost float64, v []float64, signed bool) error {
		if len(v) != len(p.Resources) {
			return fmt.Errorf("pack: %s %q has %d entries for %d resources", kind, name, len(v), len(p.Resources))
		}
		if !(cost >= 0) || math.IsInf(cost, 0) {
			return fmt.Errorf("pack: %s %q has cost %v", kind, name, cost)
		}
		for r, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) || (!signed && x < 0) {
				return fmt.Errorf("pack: %s %q has %v of %s", kind, name, x, p.Resources[r])
			}
		}
		return nil
	}
	for _, s := range p.Servers {
		if err := row("server", s.Name, s.Cost, s.Capacity, true); err != nil {
			return err
		}
	}
	for _, u := range p.Purchases {
		if err := row("purchase", u.Name, u.Cost, u.Change, true); err != nil {
			return err
		}
	}
	for _, it := range p.Items {
		if err := row("item", it.Name, it.Cost, it.Demand, false); err != nil {
			return err
		}
		if it.Count < 0 {
			return fmt.Errorf("pack: item %q is wanted %d times", it.Name, it.Count)
		}
	}
	return nil
}
