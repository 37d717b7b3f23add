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

func specs(group []simpleContainer) ([]v1.Container, error) {
	var out []v1.Container
	for _, c := range group {
		spec, err := c.spec()
		if err != nil {
			return nil, err
		}
		out = append(out, spec)
	}
	return out, nil
}

func (s simplePod) pod() (*v1.Pod, error) {
	if s.Manifest != nil {
		return s.Manifest, nil
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, UID: types.UID(s.UID)}}
	var err error
	if pod.Spec.InitContainers, err = specs(s.Init); err != nil {
		return nil, err
	}
	pod.Spec.Containers, err = specs(s.Containers)
	return pod, err
}

func parsePod(raw json.RawMessage) (*podRecord, error) {
	var s simplePod
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	pod, err := s.pod()
	if err != nil {
		return nil, err
	}
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.UID == "" {
		pod.UID = types.UID("uid-" + pod.Name)
	}
	return &podRecord{Pod: pod, Running: lasting(pod)}, nil
}

// lasting names the containers that run until the pod ends.
func lasting(pod *v1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

// podOf finds the pod whose uid a command names.
func (n *node) podOf(c command) (*podRecord, error) {
	var uid string
	if err := json.Unmarshal(c.Pod, &uid); err != nil {
		return nil, fmt.Errorf("pod must be a uid: %w", err)
	}
	p := n.find(uid)
	if p == nil {
		return nil, fmt.Errorf("no pod %q", uid)
	}
	return p, nil
}

// container finds a container by name. It points into the pod, as the kubelet's own calls do.
func (p *podRecord) container(name string) (*v1.Container, error) {
	for _, group := range [][]v1.Container{p.Pod.Spec.InitContainers, p.Pod.Spec.Containers} {
		for i := range group {
			if group[i].Name == name {
				return &group[i], nil
			}
		}
	}
	return nil, fmt.Errorf("pod %q has no container %q", p.Pod.UID, name)
}
