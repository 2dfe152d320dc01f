// Package dilation predicts how much jobs on one machine slow each other down.
//
// The model is the D-factor (Performance Evaluation 2016, §3). A machine is a
// queue for each of its resources. A job is a sequence of slices of equal
// length, each served by one resource; its loading vector p has, for each
// resource, the share of its slices that go there, and the rest up to 1 is
// time spent idle. A slice waits for the slices of other jobs that it finds in
// its queue, so that job j is stretched by
//
//	λ_j = 1 + p_j · (p_total - p_j)            (eq. 3)
//
// where p_total sums the loading vectors of all jobs on the machine. A resource
// of k identical instances (cores, disks) spreads each job's share over them
// evenly, which divides that resource's term by k (eq. 14).
//
// Everything follows from that one product: the total dilation of a machine
// (eq. 12), the machine on which a new job does the least harm (Definition 2),
// and, job by job as they come and go, the times at which jobs that overlap
// only in part are finished (§4.2). The linear sum, a model of one resource, is
// there for comparison.
package dilation
