//go:build k134

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func addHintProvider(tm topologymanager.Manager, dm *devicemanager.ManagerImpl) {
	tm.AddHintProvider(dm)
}

func startManager(dm *devicemanager.ManagerImpl, pods func() []*v1.Pod, n *node, m containermap.ContainerMap, running sets.Set[string]) error {
	return dm.Start(pods, n, m, running)
}

func stopManager(dm *devicemanager.ManagerImpl) { _ = dm.Stop() }

func runOptions(dm *devicemanager.ManagerImpl, pod *v1.Pod, c *v1.Container) (*devicemanager.DeviceRunContainerOptions, error) {
	return dm.GetDeviceRunContainerOptions(pod, c)
}

func admitWith(h lifecycle.PodAdmitHandler, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return h.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others})
}

func newPredicates(node func() (*v1.Node, error), dm *devicemanager.ManagerImpl) lifecycle.PodAdmitHandler {
	return lifecycle.NewPredicateAdmitHandler(node, lifecycle.NewAdmissionFailureHandlerStub(), dm.UpdatePluginResources)
}
