// Package mine learns the program behind recorded calls: which types of nodes
// there are, the loops they run, how every count follows the scale, and where
// every argument comes from (PatternMiner §III-B).
//
// A Corpus takes runs of several scales, call by call. Learn then goes through
// these steps, each in a file of its own:
//
//	types      senders that behave alike
//	site       calls of a type that have one form: the contexts of all below
//	count      why a site is called as often as it is: program, clock, reply, chance
//	           (clock: how long nodes go on; chance: what shows that it is chance)
//	rule       arguments known by their place: constant, regular, a time
//	flow       arguments that earlier calls hold (source: where; the evaluator
//	           walks through a run in time and knows what every source holds)
//	table      arguments that other arguments decide
//	reach      calls that others give rise to
//	structure  logs folded into loops (fold) and aligned across nodes and scales
//	times      intervals, rate limits and starts
//	list       how long lists are whose length varies
//	write      all of it as a program
//
// Check walks through another run with the same evaluator and compares every
// value. No step knows the name of a method or a field; and nothing is decided
// by chance or by the order of a map, so the same runs give the same program.
package mine
