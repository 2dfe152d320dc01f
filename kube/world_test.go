package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gleaner/cluster"
	"gleaner/control"
	"gleaner/control/worldtest"
	"gleaner/kube"
	"gleaner/kube/api/v1alpha1"
	"gleaner/kube/manifests"
	"gleaner/lab/engine"
)

// The tests' jobs are in namespace; controllers and reports are in system.
const (
	namespace = "default"
	system    = "gleaner-system"
)

// A lab is a real cluster whose nodes are played by kwok, and whose agents by the test.
type lab struct {
	*engine.ControlPlane
	config *rest.Config
	client client.Client
}

// open starts the cluster of all tests of this package, once.
var open = sync.OnceValues(func() (*lab, error) {
	dir, err := os.MkdirTemp("", "gleaner-kube-")
	if err != nil {
		return nil, err
	}
	l, err := start(context.Background(), dir)
	if err == nil {
		closing = func() {
			l.Stop()
			_ = os.RemoveAll(dir) // without it, the folder has the logs
		}
	}
	return l, err
})

// closing stops the cluster.
var closing = func() {}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	beAgent()
	code := m.Run()
	closing()
	os.Exit(code)
}

func start(ctx context.Context, dir string) (*lab, error) {
	k, err := engine.BuildKubernetes(ctx, func() { fmt.Fprintln(os.Stderr, "building Kubernetes") })
	if err != nil {
		return nil, err
	}
	l := &lab{}
	if l.ControlPlane, err = k.StartCluster(ctx, dir); err != nil {
		return nil, err
	}
	if l.config, err = clientcmd.BuildConfigFromFlags("", l.Kubeconfig); err != nil {
		return nil, err
	}
	l.config.QPS = -1
	s, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	if l.client, err = client.New(l.config, client.Options{Scheme: s}); err != nil {
		return nil, err
	}
	return l, l.install(ctx)
}

// objects are what the manifests install, as they are printed.
func objects() (all []*unstructured.Unstructured, err error) {
	text, err := manifests.Write(manifests.Install{Namespace: system, Image: "gleaner-kube"})
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

// install applies the manifests.
func (l *lab) install(ctx context.Context) error {
	all, err := objects()
	if err != nil {
		return err
	}
	for _, object := range all {
		if err := l.client.Create(ctx, object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return soon(ctx, func() error { return l.client.List(ctx, &v1alpha1.HarvestJobList{}) })
}

// soon tries until there is no error, for two minutes: client-go waits for up to one before it opens a watch again that was
// cut many times.
func soon(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// real is the cluster. It skips the test if Kubernetes is not built and is not to be.
func real(t testing.TB) *lab {
	t.Helper()
	if os.Getenv("GLEANER_LONG") == "" && !engine.HasKubernetes() {
		t.Skip("Kubernetes is not built here; GLEANER_LONG=1 builds it, which takes 20 minutes")
	}
	l, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// node makes a node of four cores that lasts as long as the test.
func (l *lab) node(t *testing.T, name string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size}}
	if err := l.client.Create(t.Context(), n.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.client.Delete(context.Background(), n); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

var size = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110"),
	kube.CPU: resource.MustParse("4000"), kube.Memory: resource.MustParse("8Gi")}

// agents report what primaries use on nodes, until they are stopped or the test ends.
func (l *lab) agents(t *testing.T, primary func() cluster.Resources, nodes ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	say := func() error {
		var errs []error
		for _, name := range nodes {
			errs = append(errs, kube.Report(ctx, l.client, kube.ReportOf(cluster.ServerID(name), system, primary(), time.Now())))
		}
		return errors.Join(errs...)
	}
	if err := say(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := say(); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		for _, name := range nodes {
			_ = l.client.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system}})
		}
	})
	return stop
}

// world opens the cluster as a world, with a cache of its own.
func (l *lab) world(t *testing.T, with client.Client) *kube.World {
	t.Helper()
	o, err := kube.CacheOptions(l.client.Scheme(), system)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(l.config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	w, err := kube.Open(ctx, kube.Options{Client: with, Cache: c, Labels: kube.DefaultLabels, Every: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// empty removes all jobs and their pods when the test is over.
func (l *lab) empty(t *testing.T) {
	t.Cleanup(func() {
		ctx := context.Background()
		if err := l.client.DeleteAllOf(ctx, &v1alpha1.HarvestJob{}, client.InNamespace(namespace)); err != nil {
			t.Error(err)
		}
		err := soon(ctx, func() error {
			var pods corev1.PodList
			if err := l.client.List(ctx, &pods); err != nil {
				return err
			}
			for i := range pods.Items {
				p := &pods.Items[i]
				p.Finalizers = nil
				_ = l.client.Update(ctx, p)
				_ = l.client.Delete(ctx, p, client.GracePeriodSeconds(0))
			}
			if len(pods.Items) > 0 {
				return fmt.Errorf("%d pods are left", len(pods.Items))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// job is a HarvestJob of one stage.
func job(name string, tasks int32, command ...string) *v1alpha1.HarvestJob {
	return &v1alpha1.HarvestJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: v1alpha1.HarvestJobSpec{Stages: []v1alpha1.Stage{
		{Name: name, Tasks: tasks, CPU: resource.MustParse("100m"), Memory: resource.MustParse("4Mi"), Image: "busybox", Command: command}}}}
}

func TestWorld(t *testing.T) {
	l := real(t)
	worldtest.Run(t, func(t *testing.T, scene worldtest.Scene) control.World {
		l.empty(t)
		l.node(t, "n1")
		l.node(t, "n2")
		l.agents(t, scene.Primary, "n1", "n2")
		w := l.world(t, l.client)
		commands := map[string][]string{"short": {"sleep", "0.2"}, "long": {"sleep", "1000"}}
		for _, j := range scene.Jobs {
			h := job(j.Stages[0].Name, int32(j.Stages[0].Tasks), commands[j.Stages[0].Name]...)
			h.Name = fmt.Sprintf("%s-%d", h.Name, j.ID)
			if err := l.client.Create(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		return w
	})
}
