// Package harvest decides which tasks run where and which are killed first:
// which classes of servers a batch job's tasks may use, on which server each
// starts, and which are killed when a primary tenant needs its server.
//
// It is two pure state machines. A Core schedules the whole cluster: it is
// Algorithm 1 of OSDI'16 §4.1 with the job manager around it (stages, killed
// tasks, past durations). A Guard keeps the reserve of one server (§5.3); it
// never waits for the Core. Both take events and answer with actions; time is
// in the events, the random generator is an argument.
//
// # How much, and where
//
// A policy decides only how much harvested tasks may hold on one server
// (Policy) and, if it uses classes, which classes a job may use (ClassPicker).
// Queue, stages and choice of server are the same for all, so that a comparison
// of policies compares nothing else.
//
// # Order
//
// Jobs are served in the order they came in: room that becomes free is offered
// to the oldest job whose tasks may run there. A job that cannot use it, because
// its tasks are larger, does not hold up the jobs behind it. No job starves: if
// no class has room for it, it may run anywhere.
package harvest
