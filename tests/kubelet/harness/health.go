package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

type update struct {
	TNS  int64    `json:"t_ns"`
	Pods []string `json:"pods"`
}

func (n *node) collectUpdates(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-n.dm.Updates():
			n.mu.Lock()
			pods := make([]string, 0, len(u.PodUIDs))
			for _, uid := range u.PodUIDs {
				pods = append(pods, string(uid))
			}
			n.updates = append(n.updates, update{time.Now().UnixNano(), pods})
			n.mu.Unlock()
		}
	}
}

// takeUpdates returns the pod updates the manager asked for, at least one if
// that takes no longer than the limit.
func (n *node) takeUpdates(limit time.Duration) reply {
	deadline := time.Now().Add(limit)
	for {
		n.mu.Lock()
		got := n.updates
		if len(got) > 0 || time.Now().After(deadline) {
			n.updates = nil
			n.mu.Unlock()
			return reply{"updates": got}
		}
		n.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

// health fills a fresh pod status, as the kubelet does on every status sync.
func (n *node) health(p *podRecord) (reply, error) {
	status := &v1.PodStatus{}
	for _, c := range p.Pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: c.Name})
	}
	fillResourcesStatus(n.dm, p.Pod, status)
	out := map[string]any{}
	for _, cs := range status.ContainerStatuses {
		out[cs.Name] = healthOf(cs)
	}
	return reply{"containers": out, "gate": utilfeature.DefaultFeatureGate.Enabled("ResourceHealthStatus")}, nil
}

func healthOf(cs v1.ContainerStatus) map[string]map[string]string {
	resources := map[string]map[string]string{}
	for _, rs := range cs.AllocatedResourcesStatus {
		ids := map[string]string{}
		for _, h := range rs.Resources {
			ids[string(h.ResourceID)] = string(h.Health)
		}
		resources[string(rs.Name)] = ids
	}
	return resources
}
