"""Files that NVIDIA's users have load as they are, save where they ask for MIG or MPS."""

from collections.abc import Callable

import pytest

from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config, Problem

Loaded = Callable[..., Config]
Refused = Callable[..., tuple[Problem, ...]]

ALL_FLAGS = """
version: v1
flags:
  migStrategy: "none"
  failOnInitError: true
  nvidiaDriverRoot: "/"
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: "envvar"
    deviceIDStrategy: "uuid"
  gfd:
    oneshot: false
    noTimestamp: false
    outputFile: /etc/kubernetes/node-feature-discovery/features.d/gfd
    sleepInterval: 60s
"""

MANY_KEYS = """
version: v1
flags:
  migStrategy: none
  failOnInitError: false
  gdrcopyEnabled: false
  gdsEnabled: false
  mofedEnabled: false
  useNodeFeatureAPI: null
  deviceDiscoveryStrategy: auto
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, cdi-annotations]
    deviceIDStrategy: index
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/bin/nvidia-ctk
    containerDriverRoot: /driver-root
resources:
  gpus:
  - pattern: "*"
    name: nvidia.com/gpu
  mig:
  - pattern: "*"
    name: nvidia.com/gpu
"""

SLICED = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: false
    resources:
    - name: nvidia.com/gpu
      replicas: 10
"""

SLICED_JSON = """
{"version": "v1", "sharing": {"timeSlicing":
  {"resources": [{"name": "nvidia.com/gpu", "replicas": 10}]}}}
"""

FOR_PARTITIONS = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - name: nvidia.com/gpu
      replicas: 2
    - name: nvidia.com/mig-1g.5gb
      replicas: 2
    - name: nvidia.com/mig-2g.10gb
      devices: all
      replicas: 3
"""

GUIDE = """
sharing:
  timeSlicing:
    replicas: 4
"""


def test_all_flags(loaded: Loaded) -> None:
    """The usual file of flags loads; the two useless keys are warned of, once each."""
    config = loaded(ALL_FLAGS)
    assert config.flags == NvidiaFlags(pass_device_specs=False)
    assert [warning.split()[1] for warning in config.warnings] == [
        "flags.failOnInitError",
        "flags.gfd",
    ]


def test_many_keys(loaded: Loaded) -> None:
    """A file with every key of the plugin loads, null and patterns included."""
    config = loaded(MANY_KEYS)
    assert config.flags == NvidiaFlags(
        pass_device_specs=True,
        device_list_strategies=("envvar", "cdi-annotations"),
        device_id_strategy="index",
    )
    assert len(config.warnings) == 7


@pytest.mark.parametrize("text", [SLICED, SLICED_JSON], ids=["YAML", "JSON"])
def test_sliced(loaded: Loaded, text: str) -> None:
    """Ten shares per GPU, under the same name."""
    (rule,) = loaded(text).rules
    assert (rule.resource, rule.replicas, rule.rename_suffix) == ("nvidia.com/gpu", 10, "")


def test_for_partitions(loaded: Loaded) -> None:
    """Entries for partitions that a node doesn't have are legal."""
    resources = [rule.resource for rule in loaded(FOR_PARTITIONS).rules]
    assert resources == ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"]


def test_guide(loaded: Loaded) -> None:
    """The short form of guides loads."""
    assert loaded(GUIDE).rules[0].replicas == 4


@pytest.mark.parametrize(
    "text",
    [
        SLICED.replace("timeSlicing", "mps"),
        GUIDE.replace("timeSlicing", "mps"),
        ALL_FLAGS.replace('"none"', '"single"'),
        ALL_FLAGS.replace('"none"', '"mixed"'),
    ],
    ids=["MPS", "MPS short", "MIG single", "MIG mixed"],
)
def test_not_yet(refused: Refused, text: str) -> None:
    """What is not supported yet is refused in those words."""
    (problem,) = refused(text)
    assert "not supported yet" in problem.remedy
