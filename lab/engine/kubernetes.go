package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	_ "embed" // for the sources
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// KubernetesVersion is the Kubernetes that is built.
const KubernetesVersion = "1.36.3"

// kubernetesSources are the files of the module lab/kubernetes, as etcdSources are of
// lab/etcd.
//
//go:embed kubernetes.txtar
var kubernetesSources []byte

// A Kubernetes is a whole Kubernetes as built here: control plane, kubelet, kubectl and
// kwok in one binary.
type Kubernetes struct {
	Binary string // its first argument is the program
}

// BuildKubernetes builds Kubernetes, once, as BuildEtcd does etcd.
func BuildKubernetes(ctx context.Context, building func()) (Kubernetes, error) {
	const version = "k8s.io/component-base/version.git"
	at, err := built(ctx, "kubernetes", kubernetesSources, building, "-trimpath", "-ldflags",
		"-s -w -X "+version+"Version=v"+KubernetesVersion+" -X "+version+"Major=1 -X "+version+"Minor=36 -X k8s.io/client-go/pkg/version.gitVersion=v"+KubernetesVersion)
	return Kubernetes{at}, err
}

// HasKubernetes reports whether Kubernetes is built already.
func HasKubernetes() bool {
	at, err := binary("kubernetes", kubernetesSources)
	if err != nil {
		return false
	}
	_, err = os.Stat(at)
	return err == nil
}

// A ControlPlane is a Kubernetes cluster on loopback; StartNode adds a real node. A node with the
// annotation kwok.x-k8s.io/node=fake is played by kwok: it is ready, and its pods run until
// they are deleted, unless their command is 'true', 'false' or 'sleep SECONDS'.
type ControlPlane struct {
	Kubeconfig string // of an administrator

	of        Kubernetes
	data      string
	bare      bool
	Address   string // of the API server
	etcd      string
	API       *Process
	processes []*Process // all but nodes, in the order they were started
	nodes     []*Node
}

// StartCluster starts a cluster with its data in a folder and waits until it serves. A
// cluster that had its data there before goes on.
func (k Kubernetes) StartCluster(ctx context.Context, data string) (*ControlPlane, error) {
	c := &ControlPlane{of: k, data: data, Kubeconfig: filepath.Join(data, "kubeconfig")}
	if err := c.startAll(ctx, c.startEtcd, c.credentials, c.StartAPI, c.startManager, c.startKwok); err != nil {
		return nil, err
	}
	return c, nil
}

// StartBare starts etcd and the API server alone, for others to be played to it. The API
// server logs who asked for what in AuditLog.
func (k Kubernetes) StartBare(ctx context.Context, data string) (*ControlPlane, error) {
	c := &ControlPlane{of: k, data: data, Kubeconfig: filepath.Join(data, "kubeconfig"), bare: true}
	if err := c.startAll(ctx, c.startEtcd, c.credentials, c.StartAPI); err != nil {
		return nil, err
	}
	return c, nil
}

// AuditLog is the API server's own log of requests, if it is bare.
func (c *ControlPlane) AuditLog() string { return filepath.Join(c.data, "audit.jsonl") }

func (c *ControlPlane) startAll(ctx context.Context, starts ...func(context.Context) error) (err error) {
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	for _, at := range []*string{&c.Address, &c.etcd} {
		if *at, err = FreeAddress(); err != nil {
			return err
		}
	}
	for _, start := range starts {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts a program of Kubernetes.
func (c *ControlPlane) start(ctx context.Context, program string, ready func(context.Context) error, args ...string) (*Process, error) {
	p, err := Start(ctx, program, c.data, exec.Command(c.of.Binary, append([]string{program}, args...)...), ready)
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return p, err
}

func (c *ControlPlane) startEtcd(ctx context.Context) error {
	peers, err := FreeAddress()
	if err != nil {
		return err
	}
	_, err = c.start(ctx, "etcd", func(ctx context.Context) error { return healthy(ctx, "http://"+c.etcd+"/health") },
		"--name=lab", "--data-dir="+filepath.Join(c.data, "etcd"), "--log-level=warn", "--force-new-cluster", "--unsafe-no-fsync",
		"--listen-client-urls=http://"+c.etcd, "--advertise-client-urls=http://"+c.etcd,
		"--listen-peer-urls=http://"+peers, "--initial-advertise-peer-urls=http://"+peers, "--initial-cluster=lab=http://"+peers)
	return err
}

// StartAPI starts the API server, also again after it was stopped or killed.
func (c *ControlPlane) StartAPI(ctx context.Context) (err error) {
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return err
	}
	key := filepath.Join(c.data, "service-accounts.key")
	args := []string{
		"--etcd-servers=http://" + c.etcd, "--bind-address=" + host, "--advertise-address=" + host, "--secure-port=" + port, "--cert-dir=" + filepath.Join(c.data, "certificates"),
		"--token-auth-file=" + filepath.Join(c.data, "tokens.csv"), "--authorization-mode=Node,RBAC", "--anonymous-auth=false", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file=" + key, "--service-account-key-file=" + key,
		"--service-cluster-ip-range=10.96.0.0/16", "--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount"}
	if c.bare {
		policy := filepath.Join(c.data, "audit.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+c.AuditLog(), "--audit-log-maxsize=0")
	}
	c.API, err = c.start(ctx, "kube-apiserver", c.serves, args...)
	return err
}

// auditPolicy logs who asked for what and how it was answered, without what was said.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// serves asks the API server whether it is ready.
func (c *ControlPlane) serves(ctx context.Context) error {
	return c.ask(ctx, "/readyz", func(io.Reader) error { return nil })
}

// Samples are the API server's own metrics.
func (c *ControlPlane) Samples(ctx context.Context) (out Samples, err error) {
	err = c.ask(ctx, "/metrics", func(body io.Reader) error {
		out, err = readSamples(body)
		return err
	})
	return out, err
}

// ask asks the API server for a page as administrator. Its certificate is its own.
func (c *ControlPlane) ask(ctx context.Context, path string, read func(io.Reader) error) error {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.Address+path, nil)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(c.data, "token"))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
	reply, err := client.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", reply.Status)
	}
	return read(reply.Body)
}

// controllers are those of the controller manager that a cluster of played nodes needs.
const controllers = "node-lifecycle-controller,pod-garbage-collector-controller,job-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller"

func (c *ControlPlane) startManager(ctx context.Context) error {
	_, err := c.start(ctx, "kube-controller-manager", running, "--kubeconfig="+c.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers="+controllers)
	return err
}

func (c *ControlPlane) startKwok(ctx context.Context) error {
	stages, err := exec.CommandContext(ctx, c.of.Binary, "stages").Output()
	if err != nil {
		return fmt.Errorf("engine: kwok's stages: %w", err)
	}
	file := filepath.Join(c.data, "stages.yaml")
	if err := os.WriteFile(file, stages, 0o600); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	_, err = c.start(ctx, "kwok", running, "--kubeconfig="+c.Kubeconfig, "--config="+file, "--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40", "--cidr=10.0.0.0/8", "--node-ip=10.0.0.1")
	return err
}

// running is for programs that nobody asks whether they serve: they try until they do.
func running(context.Context) error { return nil }

// credentials writes the administrator's token and kubeconfig and the key that signs service
// accounts, unless the folder has them. The folder is this cluster's: its etcd runs.
func (c *ControlPlane) credentials(context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("engine: %w", err)
		}
	}()
	token := filepath.Join(c.data, "token")
	secret, err := os.ReadFile(token)
	if err != nil {
		secret = []byte(rand.Text())
		if err := c.sign(); err != nil {
			return err
		}
	}
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n", secret)
	for i := range MostRealNodes {
		name := realNode(i)
		tokens += fmt.Sprintf("%s,system:node:%s,%s,\"system:nodes\"\n", nodeToken(string(secret), name), name, name)
	}
	for name, text := range map[string]string{
		token:                               string(secret),
		filepath.Join(c.data, "tokens.csv"): tokens,
		c.Kubeconfig:                        c.kubeconfig(string(secret), "certificate-authority: "+filepath.Join(c.data, "certificates", "apiserver.crt")),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig is how somebody reaches the API server.
func (c *ControlPlane) kubeconfig(token, authority string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://%s", %s}}]
users: [{name: user, user: {token: %q}}]
contexts: [{name: lab, context: {cluster: lab, user: user}}]
current-context: lab
`, c.Address, authority, token)
}

// sign makes the key that signs service accounts.
func (c *ControlPlane) sign() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return os.WriteFile(filepath.Join(c.data, "service-accounts.key"), text, 0o600)
}

// AddNodes makes nodes node-0000, node-0001 and so on of a size, as "12" cores and "32Gi" of
// memory, and waits until kwok has them ready. Those there are stay.
func (c *ControlPlane) AddNodes(ctx context.Context, n int, cpu, memory string) error {
	var all bytes.Buffer
	for i := range n {
		fmt.Fprintf(&all, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-%04d","annotations":{"kwok.x-k8s.io/node":"fake"}},"status":{"capacity":{"cpu":%q,"memory":%q,"pods":"110"},"allocatable":{"cpu":%q,"memory":%q,"pods":"110"}}}`+"\n", i, cpu, memory, cpu, memory)
	}
	if err := c.kubectl(ctx, &all, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	return c.kubectl(ctx, nil, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=5m")
}

func (c *ControlPlane) kubectl(ctx context.Context, stdin io.Reader, args ...string) error {
	cmd := exec.CommandContext(ctx, c.of.Binary, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("engine: kubectl %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}

// Failure waits until ctx is done, or says which program ended by itself before.
func (c *ControlPlane) Failure(ctx context.Context) error {
	all := slices.Clone(c.processes)
	for _, n := range c.nodes {
		all = append(all, n.Process)
	}
	ended := make(chan *Process, len(all))
	for _, p := range all {
		go func() {
			<-p.Done()
			ended <- p
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-ended:
		return p.Failure()
	}
}

// Stop ends all programs, the last first.
func (c *ControlPlane) Stop() {
	for _, n := range slices.Backward(c.nodes) {
		n.Stop()
	}
	for i := len(c.processes) - 1; i >= 0; i-- {
		c.processes[i].Stop()
	}
}
