package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// inside is the first process of a node, in mount and pid namespaces of its own: all others
// end with it. DIR has what the node sees as /var/lib, /var/log and /run, the images to import
// and files in place of the settings of the kernel that kubelet wants to change.
func inside(dir, programs, kubernetes, name string) error {
	if err := arrange(dir, programs, kubernetes); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	k := &keeper{ended: map[int]chan syscall.WaitStatus{}}
	failed := make(chan error, 1)
	go func() { failed <- k.run(name) }()
	go bury(k.bury)
	select {
	case <-end:
		return nil
	case err := <-failed:
		return err
	}
}

// arrange makes the mounts. None of them is seen outside.
func arrange(dir, programs, kubernetes string) error {
	mount := func(from, to string, flags uintptr) error {
		if err := syscall.Mount(from, to, "", flags, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", from, to, err)
		}
		return nil
	}
	if err := mount("", "/", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	settings, err := filepath.Glob(filepath.Join(dir, "settings", "*"))
	if err != nil {
		return err
	}
	for _, file := range settings {
		if err := mount(file, "/proc/sys/"+strings.ReplaceAll(filepath.Base(file), ".", "/"), syscall.MS_BIND); err != nil {
			return err
		}
	}
	// What is mounted at /run hides no programs, wherever they are.
	run := filepath.Join(dir, "run")
	for _, m := range [][2]string{{programs, run + "/programs"}, {kubernetes, run + "/kubernetes"}, {dir + "/log", "/var/log"}, {run, "/run"}, {dir + "/lib", "/var/lib"}} {
		if err := mount(m[0], m[1], syscall.MS_BIND|syscall.MS_REC); err != nil {
			return err
		}
	}
	return mount("", "/", syscall.MS_REC|syscall.MS_SHARED) // mounts of volumes are seen by containers
}

// A keeper starts the programs of the node and keeps them running.
type keeper struct {
	mu    sync.Mutex
	ended map[int]chan syscall.WaitStatus // of programs that run
}

// start starts a program that logs to a file.
func (k *keeper) start(log string, args ...string) (<-chan syscall.WaitStatus, error) {
	to, err := os.OpenFile(filepath.Join("/var/log", log+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	k.mu.Lock() // it may end before it is known
	defer k.mu.Unlock()
	pid, err := syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: append(os.Environ(), "PATH=/run/programs:"+os.Getenv("PATH")), Files: []uintptr{0, to.Fd(), to.Fd()}})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	k.ended[pid] = make(chan syscall.WaitStatus, 1)
	return k.ended[pid], nil
}

func (k *keeper) bury(pid int, how syscall.WaitStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ended := k.ended[pid]; ended != nil {
		ended <- how
		delete(k.ended, pid)
	}
}

// run runs containerd and kubelet; both are started again when they end.
func (k *keeper) run(name string) error {
	const socket = "/run/containerd.sock"
	ended, err := k.start("containerd", "/run/programs/containerd", "--config", "/run/containerd.toml")
	if err != nil {
		return err
	}
	if err := k.await("ctr", "/run/programs/ctr", "-a", socket, "version"); err != nil {
		return err
	}
	images, err := filepath.Glob("/run/images/*.tar")
	if err != nil {
		return err
	}
	for _, image := range images {
		if err := k.await("ctr", "/run/programs/ctr", "-a", socket, "-n", "k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	go k.keep(ended, "containerd", "/run/programs/containerd", "--config", "/run/containerd.toml")
	k.keep(nil, "kubelet", "/run/kubernetes", "kubelet", "--config=/run/kubelet.yaml", "--kubeconfig=/run/kubeconfig", "--hostname-override="+name, "--root-dir=/var/lib/kubelet", "--v=2")
	return errors.New("kubelet cannot be started")
}

// await tries a command until it succeeds, for a minute.
func (k *keeper) await(args ...string) error {
	for range 300 {
		ended, err := k.start(args[0], args[1:]...)
		if err != nil {
			return err
		}
		if how := <-ended; how.ExitStatus() == 0 {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("%s does not succeed; see its log", strings.Join(args[1:], " "))
}

// keep starts a program again whenever it has ended, until it cannot be started.
func (k *keeper) keep(ended <-chan syscall.WaitStatus, log string, args ...string) {
	for {
		if ended != nil {
			<-ended
			time.Sleep(time.Second)
		}
		var err error
		if ended, err = k.start(log, args...); err != nil {
			return
		}
	}
}
