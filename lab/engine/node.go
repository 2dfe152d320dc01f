package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for the sources
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"text/template"
	"time"

	"gleaner/image"
)

// ContainerdVersion is the containerd of real nodes.
const ContainerdVersion = "2.3.7"

// MostRealNodes is how many real nodes a cluster may have.
const MostRealNodes = 8

// nodeSources are the files of the module lab/node, as etcdSources are of lab/etcd.
//
//go:embed node.txtar
var nodeSources []byte

// ErrNoCompiler is the error of building a node without a C compiler.
var ErrNoCompiler = errors.New("runc is built with a C compiler, and there is no 'gcc' here: 'apt-get install gcc libc6-dev'")

// Programs are the programs of a real node, in a folder.
type Programs struct{ Dir string }

// BuildNode builds them, once, as BuildEtcd does etcd.
func BuildNode(ctx context.Context, building func()) (Programs, error) {
	if _, err := exec.LookPath("gcc"); err != nil && !HasNode() {
		return Programs{}, ErrNoCompiler
	}
	at, err := builtAs(ctx, "node", nodeSources, building, []string{"CGO_ENABLED=1"}, []string{"-trimpath", "-ldflags", "-s -w",
		"-tags", "netgo,osusergo,no_btrfs,no_zfs,no_devmapper,urfave_cli_no_docs", "-o", "built/", ".",
		"github.com/containerd/containerd/v2/cmd/containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/ctr",
		"github.com/containernetworking/plugins/plugins/ipam/host-local", "github.com/containernetworking/plugins/plugins/main/ptp", "github.com/opencontainers/runc"})
	return Programs{at}, err
}

// HasNode reports whether the programs of a node are built already.
func HasNode() bool {
	at, err := binary("node", nodeSources)
	if err != nil {
		return false
	}
	_, err = os.Stat(at)
	return err == nil
}

// A Node is a real one: kubelet, containerd and runc in mount and pid namespaces of their
// own. Its network is this machine's; each pod has an address behind a pair of interfaces.
type Node struct {
	Name       string
	CgroupRoot string // of kubelet: the groups of all pods are below it
	Logs       string // the folder of the logs of kubelet, containerd and all pods
	*Process
	groups []string // what CgroupRoot is below, in the order they were made
}

// realNode is the name of the i-th real node.
func realNode(i int) string { return fmt.Sprintf("real-%d", i) }

// nodeToken is what a real node shows to the API server.
func nodeToken(secret, name string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(secret+" "+name)))
}

// StartNode starts the i-th real node with images to run, which are files of archives, and
// waits until it is ready.
func (c *ControlPlane) StartNode(ctx context.Context, p Programs, i int, images ...string) (*Node, error) {
	data := filepath.Join(c.data, realNode(i))
	n := &Node{Name: realNode(i), Logs: filepath.Join(data, "log"), CgroupRoot: fmt.Sprintf("gleaner-lab-%.4x/%s", sha256.Sum256([]byte(c.data)), realNode(i))}
	if err := c.furnish(n, data, p, images); err != nil {
		return nil, fmt.Errorf("engine: %s: %w", n.Name, err)
	}
	var err error
	if n.groups, err = makeGroups(n.CgroupRoot); err != nil {
		removeGroups(n.groups)
		return nil, fmt.Errorf("engine: control groups of %s: %w", n.Name, err)
	}
	cmd := exec.Command(filepath.Join(p.Dir, "node"), "inside", data, p.Dir, c.of.Binary, n.Name)
	apart(cmd)
	n.Process, err = Start(ctx, n.Name, c.data, cmd, func(ctx context.Context) error {
		return c.kubectl(ctx, nil, "wait", "--for=condition=Ready", "node/"+n.Name, "--timeout=1s")
	})
	if err != nil {
		removeGroups(n.groups)
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	return n, c.untainted(ctx, n.Name)
}

// untainted waits until the controller manager lets pods onto a node that became ready.
func (c *ControlPlane) untainted(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, c.of.Binary, "kubectl", "--kubeconfig", c.Kubeconfig, "get", "node", name, "-o", "jsonpath={.spec.taints}").Output()
		if err == nil && len(out) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("engine: %s stays tainted: %s", name, out)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Stop ends the node with all its pods, and removes its control groups.
func (n *Node) Stop() {
	n.Process.Stop()
	for range 50 { // the kernel takes a moment to bury the processes
		if removeGroups(n.groups) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// settings are those of the kernel that kubelet wants: files that say so take their place, so
// that it changes none of this machine.
var settings = map[string]string{"vm.overcommit_memory": "1", "vm.panic_on_oom": "0", "kernel.panic": "10", "kernel.panic_on_oops": "1",
	"kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000", "net.ipv4.ip_forward": "1"}

// furnish writes all that a node needs in its folder.
func (c *ControlPlane) furnish(n *Node, data string, p Programs, images []string) error {
	run := filepath.Join(data, "run")
	if err := os.RemoveAll(run); err != nil { // of the last time
		return err
	}
	for _, dir := range []string{"lib", "log", "settings", "run/programs", "run/images", "run/cni"} {
		if err := os.MkdirAll(filepath.Join(data, dir), 0o700); err != nil {
			return err
		}
	}
	files, err := c.nodeFiles(n, data)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(data, name), text, 0o600); err != nil {
			return err
		}
	}
	for i, from := range images {
		if err := copyFile(filepath.Join(run, "images", fmt.Sprintf("%d.tar", i)), from); err != nil {
			return err
		}
	}
	if err := os.Symlink("programs/node", filepath.Join(run, "runtime")); err != nil {
		return err
	}
	return p.writePause(filepath.Join(run, "images", "pause.tar"))
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// pauseImage is the image of the first process of every pod.
const pauseImage = "gleaner.local/pause:1"

func (p Programs) writePause(file string) error {
	program, err := os.ReadFile(filepath.Join(p.Dir, "node"))
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, image.Image{Name: pauseImage, Architecture: runtime.GOARCH, Program: program, Path: "node", Args: []string{"pause"}}); err != nil {
		return err
	}
	return os.WriteFile(file, archive.Bytes(), 0o600)
}

// nodeFiles are the files of a node's folder.
func (c *ControlPlane) nodeFiles(n *Node, data string) (map[string][]byte, error) {
	secret, err := os.ReadFile(filepath.Join(c.data, "token"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(c.data, "certificates", "apiserver.crt"))
	if err != nil {
		return nil, err
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"run/kubernetes": nil, "run/kubeconfig": []byte(c.kubeconfig(nodeToken(string(secret), n.Name), "certificate-authority-data: "+base64.StdEncoding.EncodeToString(authority)))}
	for name, value := range settings {
		files["settings/"+name] = []byte(value + "\n")
	}
	for name, t := range map[string]*template.Template{"run/containerd.toml": containerdConfig, "run/kubelet.yaml": kubeletConfig, "run/cni/10-pods.conflist": networkConfig} {
		var text bytes.Buffer
		if err := t.Execute(&text, map[string]string{"Port": port, "CgroupRoot": n.CgroupRoot, "Pause": pauseImage, "Subnet": subnet(n.CgroupRoot)}); err != nil {
			return nil, err
		}
		files[name] = text.Bytes()
	}
	return files, nil
}

// subnet is where the pods of a node have their addresses: of two clusters on one machine
// they are rarely the same.
func subnet(group string) string {
	return fmt.Sprintf("10.89.%d.0/24", sha256.Sum256([]byte(group))[0])
}

var networkConfig = template.Must(template.New("network").Parse(`{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","dataDir":"/run/addresses","ranges":[[{"subnet":"{{.Subnet}}"}]]}}]}
`))

// A score of the kernel for running out of memory may not be lowered by every root.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
[grpc]
  address = '/run/containerd.sock'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Pause}}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/run/programs']
    conf_dir = '/run/cni'
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = '/run/runtime'
        SystemdCgroup = false
`))

var kubeletConfig = template.Must(template.New("kubelet").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: {{.Port}}
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}}
authorization: {mode: Webhook}
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /{{.CgroupRoot}}
protectKernelDefaults: true
containerRuntimeEndpoint: unix:///run/containerd.sock
volumePluginDir: /var/lib/kubelet/volumeplugins
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 200Mi, nodefs.available: 1%, imagefs.available: 1%}
`))
