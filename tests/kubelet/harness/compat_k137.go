//go:build k137

package main

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type numaNode = cadvisorapi.Node

func newTopologyManager(nodes []numaNode, c config) (topologymanager.Manager, error) {
	return topologymanager.NewManager(klog.Background(), nodes, c.Policy, c.Scope, c.PolicyOptions)
}

func newDeviceManager(nodes []numaNode, tm topologymanager.Manager) (*devicemanager.ManagerImpl, error) {
	return devicemanager.NewManagerImpl(klog.Background(), nodes, tm)
}

func addHintProvider(tm topologymanager.Manager, dm *devicemanager.ManagerImpl) {
	tm.AddHintProvider(klog.Background(), dm)
}

func startManager(dm *devicemanager.ManagerImpl, pods func() []*v1.Pod, n *node, m containermap.ContainerMap, running sets.Set[string]) error {
	return dm.Start(klog.Background(), pods, n, m, running)
}

func stopManager(dm *devicemanager.ManagerImpl) { _ = dm.Stop(klog.Background()) }

func managerCapacity(dm *devicemanager.ManagerImpl) (v1.ResourceList, v1.ResourceList, []string) {
	return dm.GetCapacity(klog.Background())
}

func allocatableDevices(dm *devicemanager.ManagerImpl) devicemanager.ResourceDeviceInstances {
	return dm.GetAllocatableDevices(klog.Background())
}

func updateAllocated(dm *devicemanager.ManagerImpl) { dm.UpdateAllocatedDevices(klog.Background()) }

func fillResourcesStatus(dm *devicemanager.ManagerImpl, pod *v1.Pod, s *v1.PodStatus) {
	dm.UpdateAllocatedResourcesStatus(klog.Background(), pod, s)
}

func runOptions(dm *devicemanager.ManagerImpl, pod *v1.Pod, c *v1.Container) (*devicemanager.DeviceRunContainerOptions, error) {
	return dm.GetDeviceRunContainerOptions(context.Background(), pod, c)
}

func affinityOf(tm topologymanager.Manager, uid, container string) topologymanager.TopologyHint {
	return tm.GetAffinity(klog.Background(), uid, container)
}

func admitWith(h lifecycle.PodAdmitHandler, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return h.Admit(context.Background(), &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation})
}

func newPredicates(node func() (*v1.Node, error), dm *devicemanager.ManagerImpl) lifecycle.PodAdmitHandler {
	get := func(context.Context, bool) (*v1.Node, error) { return node() }
	return lifecycle.NewPredicateAdmitHandler(get, lifecycle.NewAdmissionFailureHandlerStub(), dm.UpdatePluginResources)
}

func (d deviceLister) UpdateAllocatedDevices(l klog.Logger) { d.dm.UpdateAllocatedDevices(l) }

func (d deviceLister) GetAllocatableDevices(l klog.Logger) []*podresourcesv1.ContainerDevices {
	return flatten(d.dm.GetAllocatableDevices(l))
}

type (
	noCPUs   struct{}
	noMemory struct{}
	noClaims struct{}
)

func (noCPUs) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }
func (noCPUs) GetPodCPUs(string) []int64              { return nil }
func (noCPUs) GetAllocatableCPUs() []int64            { return nil }

func (noMemory) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.ContainerMemory {
	return nil
}

func (noMemory) GetPodMemory(klog.Logger, string) []*podresourcesv1.ContainerMemory { return nil }

func (noMemory) GetAllocatableMemory(klog.Logger) []*podresourcesv1.ContainerMemory { return nil }

func (noClaims) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.DynamicResource {
	return nil
}
