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
	var others []*v1.Pod
	for _, o := range n.activePods() {
		if o.UID != p.Pod.UID {
			others = append(others, o)
		}
	}
	result := admitWith(n.tm, p.Pod, others)
	stage := "resources"
	if result.Admit && !n.cfg.NoPredicates {
		stage = "predicates"
		result = admitWith(n.fit, p.Pod, others)
	}
	r := reply{"uid": string(p.Pod.UID), "admitted": result.Admit}
	if !result.Admit {
		n.setPhase(p, "failed")
		r["stage"], r["reason"], r["message"] = stage, result.Reason, result.Message
		return r
	}
	n.setPhase(p, "active")
	r["devices"] = n.held(p.Pod)
	affinity := map[string]any{}
	for _, c := range allContainers(p.Pod) {
		if h := affinityOf(n.tm, string(p.Pod.UID), c.Name); h.NUMANodeAffinity != nil {
			affinity[c.Name] = map[string]any{"numa": h.NUMANodeAffinity.GetBits(), "preferred": h.Preferred}
		}
	}
	if len(affinity) > 0 {
		r["affinity"] = affinity
	}
	return r
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
