package main

import (
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

type deviceInfo struct {
	Health string  `json:"health,omitempty"`
	NUMA   []int64 `json:"numa,omitempty"`
}

func describe(all devicemanager.ResourceDeviceInstances) map[string]map[string]deviceInfo {
	out := map[string]map[string]deviceInfo{}
	for name, devices := range all {
		out[name] = map[string]deviceInfo{}
		for id, d := range devices {
			info := deviceInfo{Health: d.GetHealth()}
			for _, nn := range d.GetTopology().GetNodes() {
				info.NUMA = append(info.NUMA, nn.GetID())
			}
			out[name][id] = info
		}
	}
	return out
}
