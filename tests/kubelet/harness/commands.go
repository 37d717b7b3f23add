package main

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

type handler func(*node, command) (reply, error)

// handlers answer the commands that need a started node.
var handlers = map[string]handler{
	"capacity": (*node).showCapacity,
	"node":     (*node).showNode,
	"devices":  (*node).showDevices,
	"admit":    (*node).admitNew,
	"readmit":  (*node).readmitAll,
	"sources":  (*node).setSources,
	"gc":       (*node).collectGarbage,
	"updates":  (*node).showUpdates,
	"wait":     (*node).wait,
	"metrics":  showMetrics,
	"healthz":  (*node).checkHealth,
	"remove":   ofPod((*node).removePod),
	"health":   ofPod((*node).health),
	"exit":     ofContainer((*node).exitContainer),
	"runopts":  ofContainer((*node).showRunOptions),
}

func (n *node) run(c command) reply {
	handle, known := handlers[c.Cmd]
	if !known {
		return failed(fmt.Errorf("unknown command %q", c.Cmd))
	}
	r, err := handle(n, c)
	if err != nil {
		return failed(err)
	}
	return r
}

func ofPod(do func(*node, *podRecord) (reply, error)) handler {
	return func(n *node, c command) (reply, error) {
		p, err := n.podOf(c)
		if err != nil {
			return nil, err
		}
		return do(n, p)
	}
}

func ofContainer(do func(*node, *podRecord, *v1.Container) (reply, error)) handler {
	return func(n *node, c command) (reply, error) {
		p, err := n.podOf(c)
		if err != nil {
			return nil, err
		}
		container, err := p.container(c.Container)
		if err != nil {
			return nil, err
		}
		return do(n, p, container)
	}
}

func (n *node) showCapacity(command) (reply, error) {
	capacity, allocatable, deleted := managerCapacity(n.dm)
	slices.Sort(deleted)
	return reply{"capacity": amounts(capacity), "allocatable": amounts(allocatable), "deleted": deleted}, nil
}

func (n *node) showNode(command) (reply, error) {
	obj, err := n.nodeObject()
	if err != nil {
		return nil, err
	}
	return reply{"capacity": amounts(obj.Status.Capacity), "allocatable": amounts(obj.Status.Allocatable)}, nil
}

func (n *node) showDevices(command) (reply, error) {
	pods := map[string]any{}
	for _, p := range n.activePods() {
		pods[string(p.UID)] = n.held(p)
	}
	return reply{"allocatable": describe(allocatableDevices(n.dm)), "pods": pods}, nil
}

func (n *node) admitNew(c command) (reply, error) {
	p, err := parsePod(c.Pod)
	if err != nil {
		return nil, err
	}
	if n.find(string(p.Pod.UID)) != nil {
		return nil, fmt.Errorf("uid %s is known", p.Pod.UID)
	}
	n.mu.Lock()
	n.pods = append(n.pods, p)
	n.mu.Unlock()
	return n.admit(p), nil
}

func (n *node) readmitAll(command) (reply, error) { return reply{"readmit": n.readmit()}, nil }

func (n *node) setSources(c command) (reply, error) {
	n.ready.Store(c.Ready == nil || *c.Ready)
	return reply{}, nil
}

// collectGarbage is the clean-up that Allocate and PodResources List also do.
func (n *node) collectGarbage(command) (reply, error) {
	updateAllocated(n.dm)
	return reply{}, nil
}

func (n *node) showUpdates(c command) (reply, error) {
	return n.takeUpdates(time.Duration(c.TimeoutMS) * time.Millisecond), nil
}

func (n *node) checkHealth(command) (reply, error) {
	return reply{}, n.dm.GetHealthChecker().Check(nil)
}

func (n *node) removePod(p *podRecord) (reply, error) {
	n.setPhase(p, "removed")
	return reply{}, nil
}

func (n *node) exitContainer(p *podRecord, container *v1.Container) (reply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.Running = slices.DeleteFunc(p.Running, func(s string) bool { return s == container.Name })
	return reply{}, nil
}

func (n *node) showRunOptions(p *podRecord, container *v1.Container) (reply, error) {
	opts, err := runOptions(n.dm, p.Pod, container)
	if err != nil {
		return nil, err
	}
	return reply{"options": opts}, nil
}
