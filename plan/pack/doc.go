// How it is solved
//
// The paper's program has a variable for every item on every single server, and
// identical servers make it intractable beyond a handful. Here the variables are
// fillings: how often each is used, such that every load is covered at least cost
// (Gilmore and Gomory's cutting stock). The linear relaxation of that is nearly tight
// for many servers, and has one row per load however many servers there are; 10,000
// are no harder than ten. Loads may be split in any proportion, so servers with the
// same purchases can all hold the mean of their loads: only the number of servers
// with the same purchases must be whole.
//
//   - pool: the relaxation in which servers share all resources. It has a few dozen
//     rows however many options there are, finds the options of good solutions, and
//     rules out those that cannot be in a better one. Most of them never reach the
//     master.
//   - master: the linear program over the fillings found so far and the options
//     of all choices, and column generation. Each round searches every type of
//     server for fillings that are worth more, at the duals, than they cost.
//   - search: the best filling of a server, a small mixed integer program, by
//     branch and bound over whole numbers of purchases; box is the linear
//     program of it. It is exact, so that if it finds nothing the duals are a lower
//     bound; the bound is computed from them alone and holds whatever rounding errors
//     the simplex made. A node begins with the fillings that can be in a better
//     solution; others return when the search finds them again.
//   - tree: branch and price. Branching is on options, and on sums that are
//     linear in what is bought: servers in total, of a type, purchases of a kind.
//     These change only what a filling's parts are worth. The last resort, which
//     makes the search complete, is the number of fillings whose purchases are
//     within limits (Vanderbeck's branching). Bounds are rounded up to the
//     quantum of all prices. Options whose cost at the duals raises the bound
//     beyond the best solution are left out.
//   - dive: solutions, by taking options, fixing what a relaxation uses whole
//     and rounding up the rest one by one with new fillings for what is left, or
//     all of it on one server.
//   - balance: moves loads between the servers of the cheapest solution such that
//     none is used more than necessary.
//
// A bound is proved only if that prunes a node, and only as far as needed: the
// duals are shrunk until the bound just reaches the best solution. Work is counted
// in nodes and boxes, never in time: the same problem has the same solution on every
// machine, unless it is interrupted.
package pack
