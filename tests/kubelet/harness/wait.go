package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// wait polls GetCapacity until the resource shows the wanted numbers.
func (n *node) wait(c command) (reply, error) {
	if c.PollUS == 0 {
		c.PollUS = 500
	}
	began := time.Now()
	deadline := began.Add(time.Duration(c.TimeoutMS) * time.Millisecond)
	for {
		capacity, allocatable, _ := managerCapacity(n.dm)
		total, healthy := count(capacity, c.Resource), count(allocatable, c.Resource)
		r := reply{"reached": true, "healthy": healthy, "total": total}
		if (c.Healthy == nil || *c.Healthy == healthy) && (c.Total == nil || *c.Total == total) {
			r["reached_ns"], r["elapsed_us"] = time.Now().UnixNano(), time.Since(began).Microseconds()
			return r, nil
		}
		if time.Now().After(deadline) {
			r["ok"], r["error"], r["reached"] = false, "timeout", false
			return r, nil
		}
		time.Sleep(time.Duration(c.PollUS) * time.Microsecond)
	}
}

// count is -1 for an absent resource: one can wait until it is dropped.
func count(list v1.ResourceList, name string) int64 {
	if q, ok := list[v1.ResourceName(name)]; ok {
		return q.Value()
	}
	return -1
}
