// Package cgroup puts each harvested task into a control group of its own, below
// one group that holds them all: that one has the lowest CPU weight, and its use is
// what is harvested. The package supports version 1 of the kernel's interface,
// version 2, and both side by side.
//
// A Group is plain data (its directories), so that a later process can end what an
// earlier one started.
package cgroup
