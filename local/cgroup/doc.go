// Package cgroup puts harvested tasks into control groups of their own, below
// one group that holds them all: it has the lowest CPU weight there is, and
// what it uses is what is harvested. It knows the first version of the
// kernel's interface, the second, and both side by side.
//
// A Group is plain data (the directories it stands in), so that a process that
// comes later can end what an earlier one began.
package cgroup
