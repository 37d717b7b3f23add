// Command dmharness hosts the kubelet's own device manager, topology manager,
// admission predicates and PodResources server, with no cluster and no container
// runtime, behind a line protocol: JSON commands on stdin, JSON replies on
// stdout, the kubelet's log on stderr.
//
//	dmharness -root DIR [-v N]
//
// DIR is bound over /var/lib/kubelet in a private mount namespace, because the
// device manager's plugin directory is hard-coded. A device plugin outside that
// namespace reaches the same sockets as DIR/device-plugins.
//
// Commands; "id" is echoed, "async":true answers later without blocking others:
//
//	start     policy, scope, policy_options, numa, distances, feature_gates,
//	          podresources, no_predicates
//	capacity  GetCapacity;  node: the Node object it would lead to
//	devices   healthy devices, and those held per pod and container
//	admit     pod: name, uid, containers and init_containers (name, limits,
//	          restartable), or a whole v1.Pod as manifest
//	runopts   pod (uid), container: GetDeviceRunContainerOptions
//	health    pod: allocatedResourcesStatus;  updates: pods to be refreshed
//	exit      pod, container: no longer running at the next restart
//	remove    pod: no longer active;  gc: free devices of inactive pods
//	restart   mode exec (default, like a killed kubelet) or soft, down_ms,
//	          readmit now or manual, reboot, gone, running
//	readmit   admit the known pods again, then call the sources ready
//	sources   ready: set by hand what SourcesReady says
//	stop      stop the manager
//	wait      resource, healthy, total (-1: absent), timeout_ms, poll_us
//	metrics   contains: kubelet metrics;  healthz: the manager's health check
//
// A kubelet panic ends this process, as it would end the kubelet.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
)

const (
	kubeletDir = "/var/lib/kubelet"
	nsEnv      = "DMHARNESS_NS"
	stateEnv   = "DMHARNESS_STATE"
)

func main() {
	root := flag.String("root", "", "directory to bind over "+kubeletDir)
	verbosity := flag.String("v", "2", "klog verbosity")
	flag.Parse()
	fs := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(fs)
	_ = fs.Set("v", *verbosity)

	if os.Getenv(nsEnv) == "" {
		if err := enterNamespace(*root); err != nil {
			fatal("private mount namespace", err)
		}
	}
	kubeletmetrics.Register()
	s := &server{in: bufio.NewReader(os.Stdin)}
	if path := os.Getenv(stateEnv); path != "" {
		s.resume(path)
	}
	s.loop()
}

func fatal(what string, err error) {
	fmt.Fprintf(os.Stderr, "dmharness: %s: %v\n", what, err)
	os.Exit(1)
}

func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, d := range info.Deps {
		if d.Path == "k8s.io/kubernetes" {
			return d.Version
		}
	}
	return "unknown"
}
