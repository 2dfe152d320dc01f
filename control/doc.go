// Package control is the one loop: a world reports an event, the loop records it
// and passes it to the guards and the core, and the world carries out what they
// decide. Worlds differ; the loop, the policies and the queue do not, so that a
// recording of a real cluster is a test case of the simulator.
//
// # Guards and core
//
// Guards run beside the tasks; the core may run anywhere. Both get the same events in
// the same order, and need nothing else from each other:
//
//	Run       in step: guards, then the core, then the next event. For simulations
//	RunApart  one process: guards act at once, the core gets the events after them
//	Guards    on a separate node: step them, carry out their actions, forward the event.
//	          The core is then a Brain without guards, in a world of many nodes
package control
