// Package mine learns the program behind recorded calls: which types of nodes
// there are, the loops they run, how every count follows the scale, and where
// every argument comes from (PatternMiner §III-B).
//
// Learn goes through these steps, each a room of its own; none imports one below
// it in this list:
//
//	corpus    the runs to learn from: every sender's log (intern keeps each text once)
//	kind      senders that behave alike
//	site      calls of a kind that have one form: the contexts of all below
//	flow      where in earlier calls a value is found
//	argument  how the value of an argument is known: by its place, by flow, by
//	          other arguments
//	count     why a site is called as often as it is: program, clock, reply,
//	          chance, or calls of others (ladder: the formulas)
//	order     logs folded into loops (fold) and aligned across nodes and scales
//	pace      intervals, rate limits and starts
//
// This package then writes all of it as a program, reports what is known and
// what is not, and checks it: Check walks through another run and compares every
// count, order, value and interval. No step knows the name of a method or a
// field; and nothing is decided by chance or by the order of a map, so the same
// runs give the same program.
package mine
