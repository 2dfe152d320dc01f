// Package fabric makes block devices out of spare disk (NSDI'17 §2).
//
// A Front is the one process that knows the vDisks: it keeps their maps in kv (fabric/maps), reads and writes them
// (fabric/volume) on disks of its own and of data servers (fabric/disk, fabric/dataserver), offers them by NBD
// (fabric/nbd), and rebuilds what was lost. Replicas go where package placement says.
//
//	NBD client ──> Front ──> volume ──> disk here
//	                 │          └─────> data server ──> disk there
//	                 └──> maps in kv
package fabric
