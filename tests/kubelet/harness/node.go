package main

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// podRecord is a pod the node knows, as the kubelet's pod manager would.
type podRecord struct {
	Pod     *v1.Pod
	Phase   string   // "", active, failed, removed
	Running []string // containers the runtime would report as running
}

// node plays the part of the kubelet around one device manager.
type node struct {
	cfg   config
	dm    *devicemanager.ManagerImpl
	tm    topologymanager.Manager
	fit   lifecycle.PodAdmitHandler
	ready atomic.Bool

	admitMu sync.Mutex // the kubelet admits one pod at a time

	mu      sync.Mutex
	pods    []*podRecord
	known   sets.Set[string]
	updates []update

	cancel context.CancelFunc
}

// AddSource and AllReady make node the kubelet's config.SourcesReady.
func (n *node) AddSource(string) {}

// AllReady reports what the last sources command or restart set.
func (n *node) AllReady() bool { return n.ready.Load() }

func setFeatureGates(gates map[string]bool) error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(gates)
}

func newNode(cfg config, st *savedState) (*node, error) {
	if cfg.Policy == "" {
		cfg.Policy = topologymanager.PolicyNone
	}
	if cfg.Scope == "" {
		cfg.Scope = "container"
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{cfg: cfg, known: sets.New[string](), cancel: cancel}
	n.ready.Store(st == nil)
	containers, running := n.restore(st)
	if err := n.build(topologyOf(cfg)); err != nil {
		return nil, err
	}
	go n.collectUpdates(ctx)
	if err := startManager(n.dm, n.activePods, n, containers, running); err != nil {
		return nil, err
	}
	if cfg.PodResources != "" {
		if err := servePodResources(ctx, n, cfg.PodResources); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// restore takes over the pods of the process before, with what the container runtime would
// tell the kubelet of them.
func (n *node) restore(st *savedState) (containermap.ContainerMap, sets.Set[string]) {
	containers, running := containermap.NewContainerMap(), sets.New[string]()
	if st == nil {
		return containers, running
	}
	n.known.Insert(st.Known...)
	for i := range st.Pods {
		p := &st.Pods[i]
		n.pods = append(n.pods, p)
		uid := string(p.Pod.UID)
		for _, c := range allContainers(p.Pod) {
			containers.Add(uid, c.Name, uid+"/"+c.Name)
		}
		for _, name := range p.Running {
			running.Insert(uid + "/" + name)
		}
	}
	return containers, running
}

func topologyOf(cfg config) []numaNode {
	topology := make([]numaNode, 0, len(cfg.NUMA))
	for i, id := range cfg.NUMA {
		t := numaNode{Id: id}
		if i < len(cfg.Distances) {
			t.Distances = cfg.Distances[i]
		}
		topology = append(topology, t)
	}
	return topology
}

// build makes the managers, and wires them as the kubelet's container manager does.
func (n *node) build(topology []numaNode) error {
	var err error
	if n.tm, err = newTopologyManager(topology, n.cfg); err != nil {
		return err
	}
	if n.dm, err = newDeviceManager(topology, n.tm); err != nil {
		return err
	}
	addHintProvider(n.tm, n.dm)
	n.fit = newPredicates(n.nodeObject, n.dm)
	return nil
}

func (n *node) stop() {
	n.cancel()
	stopManager(n.dm)
}

// activePods is the kubelet's view: everything not terminated, including the
// pod that is just being admitted.
func (n *node) activePods() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	var pods []*v1.Pod
	for _, p := range n.pods {
		if p.Phase == "active" || p.Phase == "" {
			pods = append(pods, p.Pod)
		}
	}
	return pods
}

func (n *node) find(uid string) *podRecord {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if string(p.Pod.UID) == uid {
			return p
		}
	}
	return nil
}

func (n *node) setPhase(p *podRecord, phase string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.Phase = phase
}
