// Package colocation measures how harvesting affects the primary: the tail
// latency of a real search service alone and beside real batch jobs, on this
// machine, under each policy (Figures 10 to 12 of OSDI'16).
//
// Nothing is simulated. The service is a process (gleaner/lab/search) whose
// load follows a day of a tenant's trace, compressed into a minute or so; the
// jobs are processes too, run by the local world under the loop, the core and
// the guard of 'gleaner up'. It needs Linux.
package colocation
