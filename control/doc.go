// Package control is the one loop: a world tells what happened, the loop
// records it and hands it to the guards and the core, and the world carries
// out what they decide. Worlds differ; the loop, the policies and the queue
// do not, so that a recorded run of a real cluster is a test case of the
// simulator.
//
// # Guards and core
//
// Guards stand beside the tasks; the core may be anywhere. Each sees the same events
// in the same order, and needs nothing else of the other:
//
//	Run       in step: guards, then the core, then the next event. For simulations
//	RunApart  one process: guards act at once, the core gets the events after them
//	Guards    on a node of its own: step them, do what they say, send the event on.
//	          The core is then a Brain without guards, in a world of many nodes
package control
