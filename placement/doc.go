// Package placement chooses the servers that hold a block's replicas.
//
// Replicas on harvested disks are lost when the tenant that owns the disk
// reimages it, and cannot be read while that tenant is busy. Both come in
// waves over servers that belong together, so the replicas of a block go to
// servers whose owners have nothing in common (OSDI'16 §4.2, Algorithm 2):
// Grid sorts the tenants into three columns by how often they are reimaged and
// each column into three rows by their peak utilisation, nine cells of equal
// space, and takes every replica from another row, another column and another
// environment. Racks and machine functions may be added as rules (§7).
//
//	reimages   infrequent   intermediate   frequent
//	           +---------+  +---------+  +---------+
//	peak high  | cell 2  |  | cell 5  |  | cell 8  |   rows need not align:
//	    medium | cell 1  |  | cell 4  |  | cell 7  |   each cell has a ninth
//	    low    | cell 0  |  | cell 3  |  | cell 6  |   of the free space
//	           +---------+  +---------+  +---------+
//
// # Rounds
//
// The paper places replicas in rounds of three and forgets the rows and columns
// after each. Three replicas of a round use every row and every column once, so
// that is the same as: of k replicas, no row and no column holds more than k/3,
// rounded up. Stated that way it needs no memory of rounds, and serves for the
// repair of a block that lost some of its replicas as well; there, when it cannot
// be kept after each replica, it is kept over all of them. It serves for a fourth
// column too (see below).
//
// # Chance, and dead ends
//
// A cell is drawn uniformly from those that may take the next replica, a tenant
// uniformly from those of the cell that may, a server uniformly from those of
// the tenant that may. Full and busy servers are not in the draw, nor are
// tenants that have no other; a cell without a tenant is drawn again. The
// literal algorithm can paint itself into a corner: the environment it took may
// be the only one left in a cell that comes later. Then the search goes back
// and through the other choices, so that rules are kept whenever they can be.
//
// # The steady replica
//
// Beyond the paper, the rule Steady takes one replica from a server that is never
// busy, where one is to be had, so that a block can be read at any time. It comes
// after the creator's, and is drawn like any other.
//
// # The tenants that are reimaged least
//
// Algorithm 2 keeps a third of all replicas in its frequent column, loses them there
// several times a year and puts each back there. Beyond the paper, the rule Seldom
// makes the nine cells of the tenants that are reimaged least: those that have half of
// the free space, and a third of what is free on steady servers, for one replica of
// three is to be there. The rest is a fourth column. Its servers keep what they create
// until they are reimaged; apart from that they get what finds no room in the nine
// cells. When the free space is another by an eighth the cells are made anew, so that
// they reach to tenants reimaged more often as space runs out, long before the first
// ones are full. Replicas are kept apart by rows, columns and environments as ever.
//
// # Servers and disks
//
// An Inventory knows what can be placed on: tenants, their servers and the disks of
// those, which come, go and change what is free on them. Rules are about servers; the
// disk within one is the emptiest. An Inventory is of disks that are alike: whoever has
// several tiers keeps one for each. A Fleet keeps one by the events of a cluster.
//
// Stock (what HDFS does) and Random stand beside Grid for comparison.
package placement
