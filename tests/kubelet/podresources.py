"""What the kubelet tells others of its pods."""

from collections import defaultdict

import grpc

from deviceplugin.api.podresources.v1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet.pods import Devices
from tests.kubelet.node import Kubelet
from tests.kubelet.until import until


def listed(kubelet: Kubelet) -> dict[str, Devices]:
    """Device ids by pod, container and resource, as ``List`` answers."""
    answers: list[api_pb2.ListPodResourcesResponse] = []

    def asked() -> bool:
        try:
            answers.append(_ask(kubelet))
        except grpc.RpcError as error:
            # The daemon asks too, and the kubelet limits how often all may.
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
        return bool(answers)

    assert until(asked)
    return {pod.name: _devices(pod) for pod in answers[0].pod_resources}


def _ask(kubelet: Kubelet) -> api_pb2.ListPodResourcesResponse:
    # A channel of its own connects anew, also after a kubelet's death.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{kubelet.pod_resources}", options=options) as channel:
        return api_pb2_grpc.PodResourcesListerStub(channel).List(
            api_pb2.ListPodResourcesRequest(), timeout=5
        )


def _devices(pod: api_pb2.PodResources) -> Devices:
    return {container.name: _ids(container) for container in pod.containers}


def _ids(container: api_pb2.ContainerResources) -> dict[str, tuple[str, ...]]:
    # The real kubelet has an entry for each NUMA node, and one id may stand in several.
    ids: dict[str, set[str]] = defaultdict(set)
    for entry in container.devices:
        ids[entry.resource_name].update(entry.device_ids)
    return {resource: tuple(sorted(found)) for resource, found in ids.items()}
