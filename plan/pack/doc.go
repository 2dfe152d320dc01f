// How it is solved
//
// The paper's program has a variable for every item on every single server,
// and servers that are alike make it hopeless beyond a handful. Here the
// variables are fillings: how often is each used, such that every item is
// covered, at least cost (Gilmore and Gomory's cutting stock). The linear
// relaxation of that is nearly tight, and has one row an item however many
// servers there are; 10,000 are no harder than ten.
//
//   - master: the linear program over the fillings found so far, and column
//     generation. Each round searches every shape (a server type and a group)
//     for a filling that is worth more, at the duals, than it costs.
//   - search: the best filling of a shape, a small integer program, by branch
//     and bound. It is exact, so that where it finds nothing the duals are a
//     lower bound; the bound is computed from them alone and holds whatever
//     rounding errors the simplex made.
//   - tree: branch and price. Branching is on sums that are linear in what
//     fillings hold: servers in all, of a type, of a shape, purchases of a
//     kind, items on a shape. These change only what a filling's parts are
//     worth. The last resort, which makes the search complete, is the number
//     of fillings whose contents are within limits (Vanderbeck's branching).
//     Bounds are rounded up to the quantum of all prices.
//   - dive: solutions, by fixing what a relaxation uses whole and rounding up
//     the rest one by one with new fillings for what is left, first under the
//     demand that it cost no more than the bound.
//
// A proof is made only where it prunes a node, and only as far as it has to
// go: the duals are shrunk until the bound just reaches the best solution.
// Everything is counted in nodes and boxes, never in time: the same problem
// has the same solution on every machine.
package pack
