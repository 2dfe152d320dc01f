package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gleaner/cluster"
)

// The annotations of a node's Lease: what its primary uses.
const (
	primaryCPU    = "gleaner.dev/primary-cpu"
	primaryMemory = "gleaner.dev/primary-memory"
)

// ReportLabel is on every Lease that is a report.
const ReportLabel = "gleaner.dev/report"

// ReportOf is the Lease by which the agent of a node says at a time what its primary uses.
func ReportOf(node cluster.ServerID, namespace string, primary cluster.Resources, at time.Time) *coordinationv1.Lease {
	holder, renewed := string(node), metav1.NewMicroTime(at)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: string(node), Namespace: namespace, Labels: map[string]string{ReportLabel: "primary"},
			Annotations: map[string]string{
				primaryCPU:    resource.NewMilliQuantity(int64(primary.CPU), resource.DecimalSI).String(),
				primaryMemory: resource.NewQuantity(int64(primary.Memory), resource.BinarySI).String(),
			}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
}

// Report writes a report of ReportOf, over the last one of its node.
func Report(ctx context.Context, c client.Client, report *coordinationv1.Lease) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, report.DeepCopy(), client.RawPatch(types.MergePatchType, text))
	if apierrors.IsNotFound(err) {
		return c.Create(ctx, report)
	}
	return err
}

// Offer is what the status of a node says if r can be harvested there.
func Offer(r cluster.Resources) map[corev1.ResourceName]*string {
	cpu, memory := strconv.FormatInt(int64(r.CPU), 10), strconv.FormatInt(int64(r.Memory), 10)
	return map[corev1.ResourceName]*string{CPU: &cpu, Memory: &memory}
}

// Withdrawn is Offer for a node without an agent.
func Withdrawn() map[corev1.ResourceName]*string {
	return map[corev1.ResourceName]*string{CPU: nil, Memory: nil}
}

// OfferedBy is what a node offers.
func OfferedBy(n *corev1.Node) cluster.Resources {
	cpu, memory := n.Status.Allocatable[CPU], n.Status.Allocatable[Memory]
	return cluster.Resources{CPU: cluster.MilliCPU(cpu.Value()), Memory: cluster.Bytes(memory.Value())}
}

// The most that a report may say: what is more would not fit the numbers that count it.
var (
	mostCPU    = resource.MustParse("1M")
	mostMemory = resource.MustParse("1Ei")
)

// sensible leaves out exponents: to compare a number with an exponent of eight digits takes minutes.
var sensible = regexp.MustCompile(`^[0-9.]{1,20}([mkKMGTPE]i?)?$`)

// readReport reads what a report says.
func readReport(lease *coordinationv1.Lease) (cluster.Resources, error) {
	cpu, err1 := readUse(lease, primaryCPU, mostCPU)
	memory, err2 := readUse(lease, primaryMemory, mostMemory)
	return cluster.Resources{CPU: cluster.MilliCPU(cpu.MilliValue()), Memory: cluster.Bytes(memory.Value())}, errors.Join(err1, err2)
}

func readUse(lease *coordinationv1.Lease, name string, most resource.Quantity) (resource.Quantity, error) {
	said := lease.Annotations[name]
	var use resource.Quantity
	err := fmt.Errorf("%q is not a number from 0 to %s", said, most.String())
	if sensible.MatchString(said) {
		if use, err = resource.ParseQuantity(said); err == nil && use.Cmp(most) > 0 {
			use, err = resource.Quantity{}, fmt.Errorf("%q is more than %s", said, most.String())
		}
	}
	if err != nil {
		err = fmt.Errorf("kube: report of %s: %s: %w", lease.Name, name, err)
	}
	return use, err
}
