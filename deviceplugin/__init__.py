"""A kubelet device plugin daemon for NVIDIA GPUs, AMD GPUs and RDMA adapters."""
