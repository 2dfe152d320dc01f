// Package local is a world: this machine. Its primary is everything that is not a
// harvested task. The primary's use is read every second from /proc and control
// groups (OSDI'16 §5.3), and its CPU more often while tasks run, so that a burst is
// reported at once. It needs Linux.
//
// # A task is a directory
//
// The state of all jobs is in a directory, with one directory for each job and in it
// one for each run of each task. A run is written to disk before it starts. A
// supervisor, a process in a session of its own that outlives this one, runs the
// command and writes how it ended. A lock on a file in the directory is taken before
// and passed to the supervisor, which lets go of it after that, so that the lock is
// free exactly when no supervisor has the run and none will. As long as this process
// lives, a supervisor gets one run after the other: to start it takes longer than
// most commands do.
//
// A world that is opened after a crash therefore finds each run in one of three
// states: it has ended, and a file says how; its supervisor is alive, and it is
// adopted; or its supervisor is gone without a record, and after its processes
// are killed it counts as lost and is run again. See docs/decisions/0003-a-task-is-a-directory.md.
package local
