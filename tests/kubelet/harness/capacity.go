package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// amounts turns a resource list into numbers.
func amounts(list v1.ResourceList) map[string]int64 {
	m := map[string]int64{}
	for name, q := range list {
		m[string(name)] = q.Value()
	}
	return m
}

// room is what the node has besides devices: never the reason of a refusal.
var room = v1.ResourceList{
	v1.ResourceCPU:              resource.MustParse("256"),
	v1.ResourceMemory:           resource.MustParse("2Ti"),
	v1.ResourceEphemeralStorage: resource.MustParse("2Ti"),
	v1.ResourcePods:             resource.MustParse("500"),
}

// nodeObject builds what the Node object would say after a status update: a
// resource once seen stays with zero after the device manager forgot it.
func (n *node) nodeObject() (*v1.Node, error) {
	capacity, allocatable, deleted := managerCapacity(n.dm)
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range capacity {
		n.known.Insert(string(name))
	}
	n.known.Insert(deleted...)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "harness", Labels: map[string]string{
			v1.LabelHostname: "harness", v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64"}},
		Status: v1.NodeStatus{Capacity: n.withRoom(capacity), Allocatable: n.withRoom(allocatable)},
	}, nil
}

func (n *node) withRoom(devices v1.ResourceList) v1.ResourceList {
	all := room.DeepCopy()
	for name := range n.known {
		all[v1.ResourceName(name)] = devices[v1.ResourceName(name)]
	}
	return all
}
