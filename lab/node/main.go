// Program node is what a real Kubernetes node on this machine is made of, beside containerd,
// runc and kubelet: the first process of its namespaces, the runtime that calls runc, and the
// pause of every pod.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if name == "node" && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	var err error
	switch {
	case name == "inside" && len(args) == 4:
		err = inside(args[0], args[1], args[2], args[3])
	case name == "runtime":
		err = runtime(args)
	case name == "pause":
		pause()
	default:
		fmt.Fprintln(os.Stderr, "usage: node inside DIR PROGRAMS KUBERNETES NAME | node pause")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// pause is the first process of a pod: it waits, and buries what is left of others.
func pause() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	go bury(func(int, syscall.WaitStatus) {})
	<-end
}

// bury waits for every child that ends, those of others that became ours included, and calls
// ended.
func bury(ended func(pid int, how syscall.WaitStatus)) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		var how syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &how, 0, nil); {
		case err == nil:
			ended(pid, how)
		case err != syscall.EINTR: // there is none
			<-children
		}
	}
}
