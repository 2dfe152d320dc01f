// Package control is the one loop: a world tells what happened, the loop
// records it and hands it to the guards and the core, and the world carries
// out what they decide. Worlds differ; the loop, the policies and the queue
// do not, so that a recorded run of a real cluster is a test case of the
// simulator.
package control
