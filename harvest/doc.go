// Package harvest decides who runs where and who dies first: which classes of
// servers a batch job's tasks may go to, on which server each one starts, and
// which of them give way when a primary tenant wants its server back.
//
// It is two machines, both pure. A Core sees the whole cluster and is
// Algorithm 1 of OSDI'16 §4.1 with the job manager around it: stages, killed
// tasks, remembered durations. A Guard sees one server and keeps its reserve
// (§5.3); it never waits for the Core. Both take events and answer with
// actions; time stands in the events, chance is handed in.
//
// # How much, and where
//
// What a policy decides is small: how much harvested tasks may hold on one
// server (Policy), and, for those that know classes, which classes a job may
// use (ClassPicker). Queue, stages and choice of server are the same for all,
// so that a comparison of policies compares nothing else.
//
// # Order
//
// Jobs are served in the order they came in: room that becomes free is offered
// to the oldest job whose tasks may go there. One that cannot use it, because
// its tasks are larger, does not hold up those behind it. No job starves: one
// that finds no class with room for it may go anywhere.
package harvest
