// Package referee checks the planner with a second model of the whole problem.
//
// The model is written from docs/plan.md and docs/formats/plan.md, not from the
// planner: it shares nothing with it but the parsed documents. For every
// architecture it computes what the whole load takes (demand), lists every
// server worth buying together with the shares it can carry (filling, corner),
// and covers the load with whole servers at least cost, by branch and bound
// over a linear program (cover). If cbc is on PATH, it solves the same problems,
// stated server by server, constraint by constraint as in the docs.
//
// The tests compare the two on random documents, check every plan that the
// planner returns against the docs, check laws that need no model, and give the
// planner documents that make no sense. All is in test files: nothing here is part of
// the program.
package referee
