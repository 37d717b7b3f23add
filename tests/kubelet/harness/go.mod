module deviceplugin/kubelet-harness

go 1.26
