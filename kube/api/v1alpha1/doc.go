// Package v1alpha1 is Gleaner's part of the Kubernetes API: the HarvestJob. It is pure:
// it converts jobs to those of package cluster and back, and does nothing else.
//
// ../../manifests has its schema, which refuses what the conversion could not take.
// 'go generate' renews it from the types.
//
// +kubebuilder:object:generate=true
// +groupName=gleaner.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the API.
var GroupVersion = schema.GroupVersion{Group: "gleaner.dev", Version: "v1alpha1"}

// AddTo makes the API's types known to a scheme.
func AddTo(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &HarvestJob{}, &HarvestJobList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
