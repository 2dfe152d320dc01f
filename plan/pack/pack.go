// Package pack chooses servers and fills them at least cost, and proves it.
//
// It is the integer program of the cluster compiler (FAST'12 §4.4, Figure 4)
// in one general form. Loads (copies of datasets, tasks) are split over servers
// in any proportion; a server's part of a load demands resources: slots and
// bandwidth of buses, network, cores, memory. A server of a type has a fixed
// capacity of each, and a Purchase changes it in whole units by server: a CPU
// gives cores and takes a socket, a DIMM gives memory and takes a slot, a disk
// gives room for a dataset's load and takes a slot, an instance of a task gives
// room for its load and takes memory.
//
// If a load may be hosted in several ways, such as a dataset on several kinds of
// units, each way is an Option of a Choice, with loads of its own. One option of each
// choice is taken and its loads are hosted.
//
// A filling is a server type with whole numbers of purchases and amounts of loads
// such that no resource is exceeded. Solve covers all loads by fillings, by branch
// and price; doc.go says how.
package pack

import (
	"fmt"
	"math"
	"slices"
)

// A Problem is what must be hosted and what it may be hosted on.
// All vectors have one entry a resource, in the order of Resources.
type Problem struct {
	Resources []string
	Servers   []Server
	Purchases []Purchase
	Loads     []Load
	Choices   []Choice
	Limits    []Limit
}

// A Server is a type of server; any number of them may be used within the limits.
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

// A Load is something to be hosted, in parts of any size.
type Load struct {
	Name   string
	Amount float64   // over all servers; best scaled such that a server holds about 1
	Demand []float64 // of an amount of 1; negative is what it gives
}

// serves reports whether a load gives something to others. If it belongs to an
// option, at most its amount is hosted: none unless the option is taken.
func (l Load) serves() bool { return slices.Min(append([]float64{0}, l.Demand...)) < 0 }

// A Choice is a decision that is made once for all servers.
type Choice struct {
	Name    string
	Options []Option
}

// An Option has loads, by their index in the problem. They are hosted if it is
// taken; a load whose options are not taken is not hosted. Loads of no option are
// always hosted.
type Option struct {
	Loads []int
}

// Options bound the work. The zero value asks for a proven optimum.
type Options struct {
	Gap       float64     // stop when (Cost-LowerBound)/Cost is at most this
	NodeLimit int         // nodes of the search tree; 0 is DefaultNodes
	Interrupt func() bool // polled often; once it returns true, the best solution so far is returned
}

// DefaultNodes is the limit of the search tree if Options have none.
const DefaultNodes = 2000

// A Solution hosts every load. It is the cheapest if Optimal, and at most Gap dearer
// than the cheapest in any case.
type Solution struct {
	Fillings   []Filling
	Taken      []int // option of each choice
	Cost       float64
	LowerBound float64 // proven: no solution costs less
	Gap        float64 // (Cost - LowerBound) / Cost
	Optimal    bool    // proven: the gap is 0
	Nodes      int     // of the search tree
	Columns    int     // fillings in the master program
}

// A Filling is one server and what is in it, Count times.
type Filling struct {
	Server     string
	Count      int
	Loads      []float64 // how much of each load of the problem, in its order
	Bought     []int     // how many of each purchase of the problem, in its order
	Cost       float64   // of one such server with its purchases
	Used       []float64 // demand of the loads, by resource
	Capacity   []float64 // for the loads, by resource: the server's, changed by purchases
	Bottleneck string    // the resource whose used part is the largest
}

// An UnfitError says that no part of a load, however small, fits any server.
type UnfitError struct {
	Load     string
	Server   string  // the type of server that comes closest
	Resource string  // what is short there
	Need     float64 // how much of it is needed at least, purchases included
	Have     float64 // how much of it that server can have

	// Without a Resource, each load fits by itself, but not those that must be together,
	// or not all within the limits.
}

func (e *UnfitError) Error() string {
	if e.Resource == "" {
		return fmt.Sprintf("pack: %s fits no server together with all that must be beside it, or not within the limits", e.Load)
	}
	return fmt.Sprintf("pack: %s fits no server: it needs %.6g of %s, and %s, which comes closest, has %.6g: short by %.6g",
		e.Load, e.Need, e.Resource, e.Server, e.Have, e.Need-e.Have)
}

// Servers counts the servers of the solution.
func (s Solution) Servers() int {
	n := 0
	for _, f := range s.Fillings {
		n += f.Count
	}
	return n
}

// optional says of each load whether it belongs to an option.
func (p *Problem) optional() []bool {
	out := make([]bool, len(p.Loads))
	for _, c := range p.Choices {
		for _, o := range c.Options {
			for _, i := range o.Loads {
				out[i] = true
			}
		}
	}
	return out
}

// check says what is wrong with a malformed problem, which no plan should pose.
func (p *Problem) check() error {
	row := func(kind, name string, size float64, v []float64) error {
		if len(v) != len(p.Resources) {
			return fmt.Errorf("pack: %s %q has %d entries for %d resources", kind, name, len(v), len(p.Resources))
		}
		if !(size >= 0) || math.IsInf(size, 0) {
			return fmt.Errorf("pack: %s %q has a cost or amount of %v", kind, name, size)
		}
		for r, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("pack: %s %q has %v of %s", kind, name, x, p.Resources[r])
			}
		}
		return nil
	}
	for _, s := range p.Servers {
		if err := row("server", s.Name, s.Cost, s.Capacity); err != nil {
			return err
		}
	}
	for _, u := range p.Purchases {
		if err := row("purchase", u.Name, u.Cost, u.Change); err != nil {
			return err
		}
	}
	for _, l := range p.Loads {
		if err := row("load", l.Name, l.Amount, l.Demand); err != nil {
			return err
		}
	}
	for _, l := range p.Limits {
		if err := l.check(p); err != nil {
			return err
		}
	}
	of := make([]int, len(p.Loads)) // one more than the choice
	for k, c := range p.Choices {
		if len(c.Options) == 0 {
			return fmt.Errorf("pack: choice %q has no options", c.Name)
		}
		for _, o := range c.Options {
			for _, i := range o.Loads {
				if of[i] != 0 && of[i] != k+1 {
					return fmt.Errorf("pack: load %q is of two choices, %q and %q", p.Loads[i].Name, p.Choices[of[i]-1].Name, c.Name)
				}
				of[i] = k + 1
			}
		}
	}
	return nil
}
