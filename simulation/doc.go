// Package simulation runs a simulated datacenter under the policies of a real
// one: it learns from the past, and then simulates the days in the one loop
// (Compute) or the blocks through a year of reimages (Storage). 'gleaner simulate'
// and the lab's experiments use it.
package simulation
