"""Which resource names the simulated kubelet takes."""

import pytest

from deviceplugin.simulation.kubelet.names import is_extended_resource


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        pytest.param("nvidia.com/gpu", True, id="usual"),
        pytest.param("nvidia.com/mig-1g.10gb", True, id="dots-and-dashes"),
        pytest.param("nvidia.com/gpu.shared", True, id="suffix"),
        pytest.param("rdma/hca_a", True, id="bare-domain"),
        pytest.param("gpu", False, id="no-domain"),
        pytest.param("/gpu", False, id="empty-domain"),
        pytest.param("nvidia.com/", False, id="empty-name"),
        pytest.param("nvidia.com/a/b", False, id="two-slashes"),
        pytest.param("kubernetes.io/gpu", False, id="native"),
        pytest.param("sub.kubernetes.io/gpu", False, id="native-subdomain"),
        pytest.param("requests.nvidia.com/gpu", False, id="quota-prefix"),
        pytest.param("NVIDIA.com/gpu", False, id="capital-domain"),
        pytest.param("nvidia.com/-gpu", False, id="leading-dash"),
        pytest.param("nvidia.com/gpu-", False, id="trailing-dash"),
        pytest.param(f"nvidia.com/{'g' * 63}", True, id="longest-name"),
        pytest.param(f"nvidia.com/{'g' * 64}", False, id="name-too-long"),
        pytest.param(f"{'d' * 244}/gpu", True, id="longest-domain"),
        pytest.param(f"{'d' * 245}/gpu", False, id="domain-too-long-for-quotas"),
    ],
)
def test_resource_names(name: str, *, taken: bool) -> None:
    """Only a qualified name that nobody else owns is an extended resource."""
    assert is_extended_resource(name) is taken
