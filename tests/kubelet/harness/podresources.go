package main

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// servePodResources serves the kubelet's PodResources API, rate limit included.
func servePodResources(ctx context.Context, n *node, path string) error {
	providers := podresources.PodResourcesProviders{
		Pods: podLister{n}, Devices: deviceLister{n.dm},
		Cpus: noCPUs{}, Memory: noMemory{}, DynamicResources: noClaims{},
	}
	srv := grpc.NewServer(apisgrpc.WithRateLimiter(ctx, "podresources",
		podresources.DefaultQPS, podresources.DefaultBurstTokens))
	podresourcesv1.RegisterPodResourcesListerServer(srv, podresources.NewV1PodResourcesServer(ctx, providers))
	v1alpha1.RegisterPodResourcesListerServer(srv, podresources.NewV1alpha1PodResourcesServer(providers))
	if err := listenPath(path); err != nil {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() { _ = srv.Serve(l) }()
	go func() { <-ctx.Done(); srv.Stop() }()
	return nil
}

type podLister struct{ n *node }

func (p podLister) GetActivePods() []*v1.Pod { return p.n.activePods() }

func (p podLister) GetPods() []*v1.Pod {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	var pods []*v1.Pod
	for _, r := range p.n.pods {
		if r.Phase != "removed" {
			pods = append(pods, r.Pod)
		}
	}
	return pods
}

func (p podLister) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range p.GetPods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

type deviceLister struct{ dm *devicemanager.ManagerImpl }

func (d deviceLister) GetDevices(uid, container string) []*podresourcesv1.ContainerDevices {
	return flatten(d.dm.GetDevices(uid, container))
}

// flatten gives one entry per device and NUMA node, as the kubelet does.
func flatten(all devicemanager.ResourceDeviceInstances) []*podresourcesv1.ContainerDevices {
	var out []*podresourcesv1.ContainerDevices
	add := func(name, id string, t *podresourcesv1.TopologyInfo) {
		out = append(out, &podresourcesv1.ContainerDevices{
			ResourceName: name, DeviceIds: []string{id}, Topology: t})
	}
	for name, devices := range all {
		for id, d := range devices {
			if d.GetTopology() == nil {
				add(name, id, nil)
			}
			for _, nn := range d.GetTopology().GetNodes() {
				add(name, id, &podresourcesv1.TopologyInfo{Nodes: []*podresourcesv1.NUMANode{{ID: nn.GetID()}}})
			}
		}
	}
	return out
}

// listenPath prepares the folder of a unix socket and removes a stale one.
func listenPath(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
