package placement

import (
	"fmt"
	"strings"
)

// A RuleSet is a set of rules about a block's replicas.
type RuleSet uint8

// The rules, in the order in which soft ones are given up. Seldom and Steady are
// given up before all others, and are always soft.
const (
	Racks        RuleSet = 1 << iota // no two replicas are in one rack
	Functions                        // nor on servers that do the same thing
	Cells                            // nor in one row or column of the grid (of each three replicas)
	Environments                     // nor in one environment
	Steady                           // one replica is on a steady server, in a row of its own or in any
	Seldom                           // no replica but the creator's is in the grid's last column, that of the tenants reimaged most
)

var ruleNames = []string{"racks", "functions", "cells", "environments", "steady", "seldom"}

func (set RuleSet) String() string {
	var names []string
	for i, name := range ruleNames {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "+")
}

// Rules are what a file demands of its blocks' replicas. A hard rule is never
// broken: the block is refused instead. A soft rule is given up, for one block, if
// it cannot be met.
type Rules struct{ Hard, Soft RuleSet }

// Paper are the rules of Algorithm 2. History adds a steady replica and prefers the
// tenants that are reimaged least, while there is room for both; Algorithm 2 has
// neither (docs/decisions/0002 and 0006).
var (
	Paper   = Rules{Hard: Cells | Environments}
	History = Rules{Hard: Cells | Environments, Soft: Steady | Seldom}
)

// givingUp lists sets of rules in the order in which they are given up: as few
// as possible, the least important first.
var givingUp = [16]RuleSet{0, 1, 2, 4, 8, 3, 5, 6, 9, 10, 12, 7, 11, 13, 14, 15}

// A DiversityError refuses a block: its replicas cannot be kept apart as its
// rules demand, or too few tenants have room for new blocks (OSDI'16 §7, lesson 3:
// data durability is king).
type DiversityError struct {
	Replicas int     // that were asked for
	Room     int     // tenants that can take a replica
	Rules    RuleSet // that cannot be met; none if there are too few tenants
}

func (e *DiversityError) Error() string {
	if e.Rules == 0 {
		return fmt.Sprintf("placement: diversity is low: only %d tenants have room; no new blocks of %d replicas", e.Room, e.Replicas)
	}
	return fmt.Sprintf("placement: cannot keep %d replicas apart by %s; %d tenants have room", e.Replicas, e.Rules, e.Room)
}
