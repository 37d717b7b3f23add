"""How the pods run: where, with which flags, asked by which probes, replaced in which order."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.__main__ import _parser
from deviceplugin.config.amd_options import EXPORTER_SOCKET
from deviceplugin.config.settings import METRICS_PORTS, run_settings, unread

Tree = dict[str, Any]
Everything = dict[str, list[tuple[str, object]]]


def test_the_arguments_are_the_daemons(patch: Tree, vendor: str) -> None:
    """The command line parses, and serves the vendor's GPUs."""
    [container] = patch["containers"]
    arguments = _parser().parse_args(container["args"])
    assert (arguments.command, arguments.vendor) == ("run", vendor)


def test_every_variable_is_read(everything: Everything) -> None:
    """No DEVICEPLUGIN_ variable of any variant is one that no flag reads."""
    names = {
        str(value): "" for pairs in everything.values() for key, value in pairs if key == "name"
    }
    assert "DEVICEPLUGIN_METRICS_ADDRESS" in names
    assert unread(names) == ()


def test_probes_reach_the_port_that_is_listened_on(pod: Tree, patch: Tree, vendor: str) -> None:
    """Address, container port and the probes' port are one, on the pod's own address."""
    [container] = patch["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    arguments = _parser().parse_args(container["args"])
    address = run_settings(arguments, environment, vendor).metrics_address
    assert address == f"0.0.0.0:{METRICS_PORTS[vendor]}"
    assert container["ports"] == [{"name": "metrics", "containerPort": METRICS_PORTS[vendor]}]
    assert {_probe(pod, kind)["port"] for kind in ("startup", "liveness", "readiness")} == {
        "metrics"
    }


def test_each_probe_asks_its_own_question(pod: Tree) -> None:
    """Only what a restart mends restarts; a lost kubelet makes the pod unready."""
    paths = {kind: _probe(pod, kind)["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_the_service_leads_to_the_probes_port(everything: Everything) -> None:
    """The metrics service targets the port by the name that each vendor gives it."""
    service = dict(everything["daemonset/components/metrics-service/service.yaml"])
    assert service["targetPort"] == "metrics"
    assert service["clusterIP"] == "None"


def test_a_node_never_has_two_of_them(everything: Everything) -> None:
    """A second would wait for the lock, ready all the while, and a rollout would go on unserved."""
    said = dict(everything["daemonset/base/daemonset.yaml"])
    assert said["rollingUpdate"] == {"maxUnavailable": "10%", "maxSurge": 0}


def test_it_outlives_what_it_serves(pod: Tree) -> None:
    """The node's other pods depend on it: it is the last to be evicted."""
    assert pod["priorityClassName"] == "system-node-critical"


def test_the_quota_is_for_the_pods_priority(pod: Tree, everything: Everything) -> None:
    """Clusters that ration the priority allow it where a quota names it."""
    quota = dict(everything["daemonset/components/critical-quota/quota.yaml"])
    assert quota["scopeName"] == "PriorityClass"
    assert quota["values"] == [pod["priorityClassName"]]


def test_memory_is_limited_and_the_processor_is_not(pod: Tree) -> None:
    """Throttled, it would answer late while a pod waits to start."""
    resources = pod["containers"][0]["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_a_vendor_tolerates_what_all_tolerate(pod: Tree, nvidia: Tree) -> None:
    """A patch replaces the whole list of tolerations, so a vendor's repeats the base's."""
    assert [each for each in pod["tolerations"] if each not in nvidia["tolerations"]] == []
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in nvidia["tolerations"]


def test_amd_goes_when_its_config_manager_says_so(amd: Tree) -> None:
    """A taint that clears the node for a repartition is not tolerated, those of GPU nodes are."""
    tolerated = amd["tolerations"]
    taint = {"key": "amd-dcm", "value": "up", "effect": "NoExecute"}
    assert not [each for each in tolerated if each.get("key", taint["key"]) == taint["key"]]
    assert {"key": "amd.com/gpu", "operator": "Exists"} in tolerated


def test_amd_sees_the_nodes_of_the_host(amd: Tree) -> None:
    """The folder that the daemon looks for device nodes in is the host's /dev, read only."""
    [container] = amd["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    settings = run_settings(_parser().parse_args(container["args"]), environment, "amd")
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts[str(settings.devfs)]["readOnly"] is True
    paths = {each["name"]: each["hostPath"]["path"] for each in amd["volumes"]}
    assert paths[mounts[str(settings.devfs)]["name"]] == "/dev"
    assert str(Path(EXPORTER_SOCKET).parent) in mounts


def test_nodes_are_chosen_by_labels_that_the_docs_name(root: Path, patch: Tree) -> None:
    """Each label that brings a pod to a node stands in the docs, the settable one in the README."""
    node = patch["affinity"]["nodeAffinity"]
    terms = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    labels = [each["key"] for term in terms for each in term["matchExpressions"]]
    page = (root / "docs/user/deploy.md").read_text()
    assert [label for label in labels if label.rpartition("/")[2] not in page] == []
    assert f"{labels[0]}=true" in (root / "README.md").read_text()


def test_the_runtime_class_is_our_own(everything: Everything, nvidia: Tree) -> None:
    """The pod names the class that is shipped, never the one that an operator owns."""
    shipped = dict(everything["daemonset/nvidia/runtimeclass.yaml"])
    suffix = dict(everything["daemonset/nvidia/kustomization.yaml"])["nameSuffix"]
    assert nvidia["runtimeClassName"] == f"{shipped['name']}{suffix}"
    assert nvidia["runtimeClassName"] != shipped["handler"] == "nvidia"


def test_the_users_config_is_not_ours_to_apply(pod: Tree, everything: Everything) -> None:
    """No ConfigMap of that name is shipped, and none is needed."""
    [volume] = [each for each in pod["volumes"] if each["name"] == "config"]
    assert volume["configMap"] == {"name": "deviceplugin", "optional": True}
    shipped = [
        each["name"]
        for pairs in everything.values()
        for key, value in pairs
        if key == "configMapGenerator" and isinstance(value, list)
        for each in value
    ]
    assert sorted(shipped) == ["simulated-amd-machine", "simulated-machine"]
    assert ("kind", "ConfigMap") not in [pair for pairs in everything.values() for pair in pairs]


def test_the_image_is_this_version(root: Path, everything: Everything) -> None:
    """Manifests, README and Dockerfile name the image by the version of the package."""
    [image] = _list(dict(everything["daemonset/kustomization.yaml"])["images"])
    assert image["newTag"] == version("deviceplugin")
    pages = [root / name for name in ("README.md", "Dockerfile", "docs/user/deploy.md")]
    named = [
        tag for page in pages for tag in re.findall(r"/deviceplugin:([\w.]+)", page.read_text())
    ]
    assert set(named) == {version("deviceplugin")}


def test_a_loaded_image_is_used(pod: Tree) -> None:
    """With the image on the node no registry is asked."""
    assert pod["containers"][0]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("kind", ["startup", "liveness", "readiness"])
def test_probes_leave_a_busy_node_time(pod: Tree, kind: str) -> None:
    """No probe gives up before it was unanswered for ten seconds."""
    probe = pod["containers"][0][f"{kind}Probe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 10


def _probe(pod: Tree, kind: str) -> Tree:
    asked: Tree = pod["containers"][0][f"{kind}Probe"]["httpGet"]
    return asked


def _list(value: object) -> list[Tree]:
    assert isinstance(value, list)
    return value
