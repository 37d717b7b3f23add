package main

import (
	"time"

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

// nodeObject builds what the Node object would say after a status update: a
// resource once seen stays with zero after the device manager forgot it.
func (n *node) nodeObject() (*v1.Node, error) {
	capacity, allocatable, deleted := managerCapacity(n.dm)
	n.mu.Lock()
	defer n.mu.Unlock()
	base := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("256"), v1.ResourceMemory: resource.MustParse("2Ti"),
		v1.ResourceEphemeralStorage: resource.MustParse("2Ti"), v1.ResourcePods: resource.MustParse("500"),
	}
	obj := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "harness", Labels: map[string]string{
		v1.LabelHostname: "harness", v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64"}}}
	obj.Status.Capacity, obj.Status.Allocatable = base.DeepCopy(), base.DeepCopy()
	for name := range capacity {
		n.known.Insert(string(name))
	}
	n.known.Insert(deleted...)
	for name := range n.known {
		obj.Status.Capacity[v1.ResourceName(name)] = capacity[v1.ResourceName(name)]
		obj.Status.Allocatable[v1.ResourceName(name)] = allocatable[v1.ResourceName(name)]
	}
	return obj, nil
}

// wait polls GetCapacity until the resource shows the wanted numbers. Absent
// resources count as -1, so that total:-1 waits for a resource to be dropped.
func (n *node) wait(c command) reply {
	if c.PollUS == 0 {
		c.PollUS = 500
	}
	began := time.Now()
	deadline := began.Add(time.Duration(c.TimeoutMS) * time.Millisecond)
	value := func(list v1.ResourceList) int64 {
		if q, ok := list[v1.ResourceName(c.Resource)]; ok {
			return q.Value()
		}
		return -1
	}
	for {
		capacity, allocatable, _ := managerCapacity(n.dm)
		total, healthy := value(capacity), value(allocatable)
		if (c.Healthy == nil || *c.Healthy == healthy) && (c.Total == nil || *c.Total == total) {
			return reply{"reached": true, "healthy": healthy, "total": total,
				"reached_ns": time.Now().UnixNano(), "elapsed_us": time.Since(began).Microseconds()}
		}
		if time.Now().After(deadline) {
			return reply{"ok": false, "error": "timeout", "reached": false, "healthy": healthy, "total": total}
		}
		time.Sleep(time.Duration(c.PollUS) * time.Microsecond)
	}
}
