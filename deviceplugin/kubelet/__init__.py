"""The kubelet's side: serving generations, registration, streams, PodResources."""

import os

# gRPC's own lines (a kubelet that ends is one) would stand between ours, in another form.
# Read when grpc is first imported; whoever wants them sets the variable.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
