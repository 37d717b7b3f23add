"""What the pods may do, and what they get of the node."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.config.settings import RunSettings, run_settings

Tree = dict[str, Any]
Everything = dict[str, list[tuple[str, object]]]

OPT_IN = {
    "daemonset/components/host-driver-root/kustomization.yaml",
    "daemonset/components/amd-partitions/kustomization.yaml",
}


@pytest.fixture(scope="session")
def settings() -> RunSettings:
    """Return the daemon's defaults."""
    return run_settings(argparse.Namespace(), {}, "nvidia")


def test_the_container_has_no_right_beyond_its_user(pod: Tree) -> None:
    """No capability, no way to gain one, and nothing of its image can be written."""
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_pod_is_confined(pod: Tree) -> None:
    """Root only for the kubelet's folders, under seccomp, with no token for the API server."""
    assert pod["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod


@pytest.mark.parametrize(
    "key", ["hostNetwork", "hostPID", "hostIPC", "hostPort", "add", "shareProcessNamespace"]
)
def test_nothing_of_the_node_is_shared(everything: Everything, key: str) -> None:
    """No variant takes a namespace, a port or a capability."""
    assert [file for file, pairs in everything.items() if key in dict(pairs)] == []


def test_only_the_named_opt_in_is_privileged(everything: Everything) -> None:
    """Of all variants two are privileged, each of them chosen by name."""
    assert {f for f, pairs in everything.items() if ("privileged", True) in pairs} == OPT_IN


@pytest.mark.parametrize("weaker", ["allowPrivilegeEscalation", "capabilities", "seccompProfile"])
def test_only_the_named_opt_in_loosens_anything(everything: Everything, weaker: str) -> None:
    """No other variant touches what the base forbids."""
    touching = {file for file, pairs in everything.items() if weaker in dict(pairs)}
    assert touching - OPT_IN == {"daemonset/base/daemonset.yaml"}


def test_no_file_is_mounted_by_sub_path(everything: Everything) -> None:
    """A ConfigMap mounted by subPath never changes."""
    keys = {key for pairs in everything.values() for key, _ in pairs}
    assert not keys & {"subPath", "subPathExpr"}


def test_what_is_mounted_is_what_the_daemon_uses(pod: Tree, settings: RunSettings) -> None:
    """Each folder of the settings is mounted where they look, writable where they write."""
    mounts = pod["containers"][0]["volumeMounts"]
    assert {Path(m["mountPath"]): not m.get("readOnly", False) for m in mounts} == {
        settings.plugin_dir: True,
        settings.pod_resources.parent: False,
        settings.state_dir: True,
        settings.config.parent: False,
    }


def test_the_folders_of_the_node_have_the_same_path_inside(pod: Tree) -> None:
    """A path in a log line is the path on the node."""
    inside = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    outside = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    assert outside == {name: inside[name] for name in ("device-plugins", "pod-resources", "state")}


def test_only_our_own_folder_is_made_where_it_is_missing(pod: Tree) -> None:
    """Where a kubelet has its folders elsewhere, the pod says so instead of serving nobody."""
    types = {v["name"]: v["hostPath"]["type"] for v in pod["volumes"] if "hostPath" in v}
    assert types.pop("state") == "DirectoryOrCreate"
    assert set(types.values()) == {"Directory"}


def test_the_namespace_admits_the_pods(everything: Everything) -> None:
    """Pod security admission lets hostPath volumes in at the level `privileged` only."""
    labels = dict(everything["daemonset/namespace.yaml"])
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
