package agent

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"gleaner/local/cgroup"
)

// A tree is where the control groups of a node's pods are.
type tree struct {
	mount string // usually /sys/fs/cgroup
	root  string // kubelet's cgroupRoot; usually empty
}

// group finds the group of a harvested pod; false if kubelet has not made it or has removed
// it. Such pods ask for no cpu and no memory of the node: kubelet calls them besteffort. How
// it names groups depends on its cgroupDriver.
func (t tree) group(uid types.UID) (cgroup.Group, bool) {
	g, found := cgroup.At(t.mount, path.Join(t.root, "kubepods/besteffort/pod"+string(uid)))
	if !found {
		unit := strings.ReplaceAll(string(uid), "-", "_")
		g, found = cgroup.At(t.mount, path.Join(t.root, "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"+unit+".slice"))
	}
	return g, found
}
