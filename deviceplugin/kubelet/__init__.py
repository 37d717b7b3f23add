"""The kubelet's side: serving generations, registration, streams, PodResources."""
