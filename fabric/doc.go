// Package fabric makes block devices out of spare disk (NSDI'17 §2).
//
// A Front is the one process that knows the vDisks: it keeps their maps in kv, reads and writes them on disks of its own and of
// data servers, offers them by NBD, and looks after what is stored. Replicas go where package placement says.
//
//	NBD client ──> Front ──> volume ──> disk here
//	                 │          └─────> data server ──> disk there
//	                 └──> maps in kv <── scanned for upkeep, which volume carries out
//
// It is made of rooms. A room imports only rooms above it in this list: layers_test.go has the map.
//
//	hands       goroutines that are used again
//	conn        what servers do alike with a connection
//	disk        one disk: extent groups in a directory
//	nbd         an NBD server over any device
//	registry    where the parts of a fabric find each other
//	dataserver  disks here and at data servers through one interface
//	pack        extents compressed, recognised by their fingerprint, and cut into shards
//	group       what becomes of an extent group: its replicas and its generation
//	tiering     when groups were used, and which go to a faster tier
//	maps        the metadata in kv
//	upkeep      what is to be done to keep all of it healthy
//	volume      reads and writes vDisks over replicas, and carries out upkeep
package fabric
