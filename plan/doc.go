// Package plan chooses the cheapest cluster that meets an SLA: which storage
// each dataset lies on, how many units, task instances, cores and servers, and
// what goes into each server.
//
// It follows the storage configuration compiler of Madhyastha et al. (FAST'12).
// An Architecture gives every dataset a kind of storage, with a second kind as
// a cache if it pays. Needs turns an architecture and an SLA into units and
// instances (Sections 4.2 and 4.3), room plan/pack fills servers with them at
// least cost (Section 4.4), and Solve searches the architectures (Section 4.1).
// What the paper leaves open is decided in docs/plan.md.
package plan
