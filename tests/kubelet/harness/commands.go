package main

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// run answers every command that needs a started node.
func (n *node) run(c command) reply {
	switch c.Cmd {
	case "capacity":
		capacity, allocatable, deleted := managerCapacity(n.dm)
		slices.Sort(deleted)
		return reply{"capacity": amounts(capacity), "allocatable": amounts(allocatable), "deleted": deleted}
	case "node":
		obj, err := n.nodeObject()
		if err != nil {
			return failed(err)
		}
		return reply{"capacity": amounts(obj.Status.Capacity), "allocatable": amounts(obj.Status.Allocatable)}
	case "devices":
		pods := map[string]any{}
		for _, p := range n.activePods() {
			pods[string(p.UID)] = n.held(p)
		}
		return reply{"allocatable": describe(allocatableDevices(n.dm)), "pods": pods}
	case "admit":
		p, err := parsePod(c.Pod)
		if err != nil {
			return failed(err)
		}
		if n.find(string(p.Pod.UID)) != nil {
			return failed(fmt.Errorf("uid %s is known", p.Pod.UID))
		}
		n.mu.Lock()
		n.pods = append(n.pods, p)
		n.mu.Unlock()
		return n.admit(p)
	case "readmit":
		return reply{"readmit": n.readmit()}
	case "sources":
		n.ready.Store(c.Ready == nil || *c.Ready)
		return reply{}
	case "gc": // the clean-up that Allocate and PodResources List also do
		updateAllocated(n.dm)
		return reply{}
	case "updates":
		return n.takeUpdates(time.Duration(c.TimeoutMS) * time.Millisecond)
	case "wait":
		return n.wait(c)
	case "metrics":
		return metricsText(c.Contains)
	case "healthz":
		if err := n.dm.GetHealthChecker().Check(nil); err != nil {
			return failed(err)
		}
		return reply{}
	case "remove", "exit", "health", "runopts":
		p, container, err := n.podAndContainer(c)
		if err != nil {
			return failed(err)
		}
		return n.runForPod(c.Cmd, p, container)
	}
	return failed(fmt.Errorf("unknown command %q", c.Cmd))
}

func (n *node) runForPod(cmd string, p *podRecord, container *v1.Container) reply {
	switch {
	case cmd == "remove":
		n.setPhase(p, "removed")
		return reply{}
	case cmd == "health":
		return n.health(p)
	case container == nil:
		return failed(fmt.Errorf("container is needed"))
	case cmd == "exit":
		n.mu.Lock()
		defer n.mu.Unlock()
		p.Running = slices.DeleteFunc(p.Running, func(s string) bool { return s == container.Name })
		return reply{}
	}
	opts, err := runOptions(n.dm, p.Pod, container)
	if err != nil {
		return failed(err)
	}
	return reply{"options": opts}
}
