// Package mine learns the program behind recorded calls: which types of nodes
// there are, the loops they run, how every count follows the scale, and where
// every argument comes from (PatternMiner §III-B).
//
// It is made of rooms. A room imports only rooms above it in this list, and not
// all of those: layers_test.go has the map.
//
//	intern     every text, path and list of paths, kept once and numbered
//	ladder     formulas that fit numbers seen at several scales
//	fold       loops in sequences
//	corpus     the runs to learn from, and the log of every sender
//	kind       senders that behave alike: the types of nodes
//	reaction   calls that replies ask for, which are taken out of the log
//	site       calls of a type that have one form: the contexts of all below
//	count      how often a site is called, and what decides it: the program, the
//	           clock, a reply, or nothing that is known
//	flow       where in earlier calls a value is found
//	argument   how the value of an argument is known: by its place, by flow, by
//	           other arguments
//	neighbour  calls of one form told apart by the calls before and after them,
//	           where that explains their arguments
//	order      logs folded into loops and aligned across nodes and scales
//	pace       intervals, rate limits and starts
//	join       what calls wait for though no value tells
//	minetest   test only: small logs, written as the paper prints them
//
// Learn takes the steps from corpus to join in this order. Where neighbour tells
// calls apart there are new sites, and count and argument learn once more.
//
// Overrides have the user's word on what recordings do not show. Follow learns, where the
// user asks for it, which call waits for which about the same thing.
//
// This package then writes what was learned as a program, reports what is known
// and what is not, and checks it: Check compares every count, order, value and
// interval with those of another run. No step knows the name of a method or a
// field, and neither chance nor the order of a map decides anything: the same
// runs give the same program.
//
// Constants have their reason beside them. Where a comment says what half or twice
// of one does in the recorded systems, Hadoop and Kubernetes at n = 26 were checked
// against programs learned at n = 3 to 12. To repeat that, change the constant and
// compare what this prints:
//
//	GLEANER_LONG=1 go test -v -run TestRecordedSystems ./trace/mine
package mine
