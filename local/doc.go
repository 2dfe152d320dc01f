// Package local is a world: this machine. Its primary is everything that is
// not a harvested task; what that uses is read every second from /proc and
// control groups (OSDI'16 §5.3), and its CPU is glanced at in between while tasks
// run, so that a burst is told at once. It needs Linux.
//
// # A task is a directory
//
// All that is known of jobs stands in a directory, one below for each job and
// in it one for each run of each task. A run is written down before it starts.
// It is watched over by a supervisor, a process of its own session that
// outlives this one; it writes down how the command ended before it ends
// itself. A lock on a file in the directory is taken before the supervisor is
// born and is handed to it, so that the lock is free exactly when there is no
// supervisor and none will come.
//
// A world that is opened after a crash therefore finds each run in one of three
// states: it has ended and says how; its supervisor is alive, and it is
// adopted; or its supervisor is gone without a word, and after its processes
// are killed it counts as lost and is run again. See docs/decisions/0003-a-task-is-a-directory.md.
package local
