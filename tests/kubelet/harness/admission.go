package main

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// admit runs the kubelet's resource admission: the topology manager (hints, then
// Allocate for every init and app container), then the node predicates.
func (n *node) admit(p *podRecord) reply {
	n.admitMu.Lock()
	defer n.admitMu.Unlock()
	others := n.othersThan(p)
	result, stage := admitWith(n.tm, p.Pod, others), "resources"
	if result.Admit && !n.cfg.NoPredicates {
		result, stage = admitWith(n.fit, p.Pod, others), "predicates"
	}
	r := reply{"uid": string(p.Pod.UID), "admitted": result.Admit}
	if !result.Admit {
		n.setPhase(p, "failed")
		r["stage"], r["reason"], r["message"] = stage, result.Reason, result.Message
		return r
	}
	n.setPhase(p, "active")
	r["devices"], r["affinity"] = n.held(p.Pod), n.affinity(p.Pod)
	return r
}

func (n *node) othersThan(p *podRecord) []*v1.Pod {
	return slices.DeleteFunc(n.activePods(), func(o *v1.Pod) bool { return o.UID == p.Pod.UID })
}

// affinity gives the NUMA nodes that the topology manager chose, by container.
func (n *node) affinity(pod *v1.Pod) map[string]any {
	out := map[string]any{}
	for _, c := range allContainers(pod) {
		if h := affinityOf(n.tm, string(pod.UID), c.Name); h.NUMANodeAffinity != nil {
			out[c.Name] = map[string]any{"numa": h.NUMANodeAffinity.GetBits(), "preferred": h.Preferred}
		}
	}
	return out
}

func allContainers(pod *v1.Pod) []v1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// held lists the devices of a pod by container and resource.
func (n *node) held(pod *v1.Pod) map[string]any {
	out := map[string]any{}
	for _, c := range allContainers(pod) {
		if d := describe(n.dm.GetDevices(string(pod.UID), c.Name)); len(d) > 0 {
			out[c.Name] = d
		}
	}
	return out
}
