// Package placement chooses the servers that hold a block's replicas.
//
// Replicas on harvested disks are lost when the tenant that owns the disk
// reimages it, and cannot be read while that tenant is busy. Both hit servers
// that belong together at the same time, so the replicas of a block go to
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
// after each. The three replicas of a round use every row and every column once,
// so the rule is equivalent to this: of k replicas, no row and no column holds
// more than k/3, rounded up. This form needs no memory of rounds, so it also
// serves to repair a block that lost some of its replicas; there, if it cannot be
// kept after each replica, it is kept over all of them. It also serves with a
// fourth column (see below).
//
// # Chance, and dead ends
//
// A cell is drawn uniformly from those that may take the next replica, a tenant
// uniformly from those of the cell that may, a server uniformly from those of
// the tenant that may. Full and busy servers are not drawn, nor are tenants that
// have no other; if a cell has no tenant to draw, another cell is drawn. The
// literal algorithm can reach a dead end: the environment it took may be the only
// one left in a cell that comes later. Then the search backtracks through the
// other choices, so that rules are kept whenever they can be.
//
// # The steady replica
//
// Beyond the paper, the rule Steady takes one replica from a server that is never
// busy, if there is one, so that a block can be read at any time. It comes after
// the creator's, and is drawn like any other.
//
// # The tenants that are reimaged least
//
// Algorithm 2 keeps a third of all replicas in its frequent column, loses them there
// several times a year and puts each back there. Beyond the paper, the rule Seldom
// makes the nine cells of the tenants that are reimaged least: those that have half of
// the free space, and a third of the free space of steady servers, because one replica
// of three goes there. The rest is a fourth column. Its servers keep the replicas that
// they create until they are reimaged; otherwise they get only replicas for which the
// nine cells have no room. When the free space has changed by an eighth, the cells are
// rebuilt, so that they include tenants reimaged more often as space runs out, long
// before the first ones are full. Rows, columns and environments keep replicas apart as
// before.
//
// # Servers and disks
//
// An Inventory holds tenants, their servers and the disks of these, which come, go and
// change their free space. Rules are about servers; within a server, the emptiest disk is
// taken. The disks of an Inventory are alike: there is one Inventory for each tier. A
// Fleet updates an Inventory by the events of a cluster.
//
// Stock (the policy of HDFS) and Random are for comparison with Grid.
package placement
