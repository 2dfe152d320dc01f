// Package simulation joins a simulated datacenter to the policies that rule a
// real one: what is learned from its past, and then its days under the one loop
// (Compute) or its blocks through a year of reimages (Storage). It is what
// 'gleaner simulate' calls, and what the lab's experiments are made of.
package simulation
