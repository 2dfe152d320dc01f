// Package plan chooses the cheapest cluster that meets an SLA: which storage
// each dataset lies on, how many units, task instances, cores and servers, and
// what goes into each server.
//
// It follows the storage configuration compiler of Madhyastha et al. (FAST'12).
// An Architecture gives every dataset a kind of storage, with a second kind as
// a cache if it pays. Needs turns an SLA and what datasets may lie on into loads
// (Sections 4.2 and 4.3), room plan/pack chooses for all datasets and fills
// servers at least cost (Sections 4.1 and 4.4), and Solve searches over what packing
// takes as given: run times and the split of a job's time. What the paper leaves
// open is decided in docs/plan.md.
package plan
