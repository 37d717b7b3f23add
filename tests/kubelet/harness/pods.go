package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simplePod is the short form of a pod in the admit command.
type simplePod struct {
	Name       string            `json:"name"`
	Namespace  string            `json:"namespace"`
	UID        string            `json:"uid"`
	Init       []simpleContainer `json:"init_containers"`
	Containers []simpleContainer `json:"containers"`
	Manifest   *v1.Pod           `json:"manifest"` // used instead when set
}

type simpleContainer struct {
	Name        string         `json:"name"`
	Limits      map[string]any `json:"limits"`
	Restartable bool           `json:"restartable"`
}

func (c simpleContainer) spec() (v1.Container, error) {
	list := v1.ResourceList{}
	for name, value := range c.Limits {
		q, err := resource.ParseQuantity(fmt.Sprint(value))
		if err != nil {
			return v1.Container{}, fmt.Errorf("%s: %w", name, err)
		}
		list[v1.ResourceName(name)] = q
	}
	out := v1.Container{Name: c.Name, Image: "none",
		Resources: v1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}}
	if c.Restartable {
		always := v1.ContainerRestartPolicyAlways
		out.RestartPolicy = &always
	}
	return out, nil
}

func parsePod(raw json.RawMessage) (*podRecord, error) {
	var s simplePod
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	pod := s.Manifest
	if pod == nil {
		pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, UID: types.UID(s.UID)}}
		for _, group := range []struct {
			in  []simpleContainer
			out *[]v1.Container
		}{{s.Init, &pod.Spec.InitContainers}, {s.Containers, &pod.Spec.Containers}} {
			for _, c := range group.in {
				spec, err := c.spec()
				if err != nil {
					return nil, err
				}
				*group.out = append(*group.out, spec)
			}
		}
	}
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.UID == "" {
		pod.UID = types.UID("uid-" + pod.Name)
	}
	p := &podRecord{Pod: pod}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			p.Running = append(p.Running, c.Name)
		}
	}
	for _, c := range pod.Spec.Containers {
		p.Running = append(p.Running, c.Name)
	}
	return p, nil
}

// podAndContainer resolves the pod uid and container name of a command.
func (n *node) podAndContainer(c command) (*podRecord, *v1.Container, error) {
	var uid string
	if err := json.Unmarshal(c.Pod, &uid); err != nil {
		return nil, nil, fmt.Errorf("pod must be a uid: %w", err)
	}
	p := n.find(uid)
	if p == nil {
		return nil, nil, fmt.Errorf("no pod %q", uid)
	}
	for _, group := range [][]v1.Container{p.Pod.Spec.InitContainers, p.Pod.Spec.Containers} {
		for i := range group {
			if group[i].Name == c.Container {
				return p, &group[i], nil
			}
		}
	}
	if c.Container != "" {
		return nil, nil, fmt.Errorf("no container %q", c.Container)
	}
	return p, nil, nil
}
